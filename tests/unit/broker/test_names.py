"""What Flower shows of a call: its role or op, ids and searchable words, nothing secret."""

import pytest

from shared.broker.names import farm_queues, readable, shadow_name, task_id


@pytest.mark.req("RULE23")
def test_each_publication_has_a_task_id_of_its_own():
    assert task_id("ca", "qb", 1) == "ca.qb.p1"
    assert task_id("ca", "qb", 2) != task_id("ca", "qb", 1)


def test_a_task_is_named_by_its_role_or_op():
    assert shadow_name("agent", "executor") == "crw.agent.executor"
    assert shadow_name("verify", None) == "crw.op.verify"


def test_the_readable_words_hold_one_word_each():
    assert readable("r1", "n1", "qa", "try  the\nlogin role=x") == "run=r1 node=n1 role=qa label=try-the-login-role=x"
    assert readable("r1", None, None, None) == "run=r1"


def test_the_queue_of_a_label_comes_before_the_farm():
    assert farm_queues(("gpu",)) == ("farm.gpu", "farm")

"""Packets: the digest is over the data, the text is a fixed template."""

import pytest

from shared.model import packets


@pytest.mark.req("DEF11")
def test_equal_data_has_an_equal_digest_and_the_kind_is_part_of_it():
    assert packets.task("do it").digest() == packets.task("do it").digest()
    assert packets.task("do it").digest() != packets.task("do it", kept=["refs/x"]).digest()
    assert packets.repair(["x"]).digest() != packets.fix(["x"], []).digest()


def test_a_task_packet_names_the_refs_that_keep_earlier_work():
    text = packets.task("Write it.", node="a", kept=["refs/crw/flow/r/pending/c"]).render()
    assert text.startswith("Write it.") and "refs/crw/flow/r/pending/c" in text
    assert packets.task("Write it.").render() == "Write it.\n"


@pytest.mark.req("O20")
def test_failed_tests_are_rendered_into_the_fix_packet():
    failed = [{"job": "unit", "step": "pytest", "tests": ["test_a"], "packages": [], "tail": "assert 1 == 2"}]
    text = packets.fix([], failed).render()
    assert "unit / pytest: test_a" in text and "assert 1 == 2" in text


def test_failed_tests_are_additive():
    assert "Failed" not in packets.fix(["too slow"], []).render()


def test_the_other_packets_say_what_they_are_about():
    assert "$.a is missing" in packets.repair(["$.a is missing"]).render()
    assert "deadline" in packets.go_on("deadline").render()
    said = packets.checkpoint([{"input": "plan", "answer": {"nodes": 1}}]).render()
    assert "plan" in said and '{"nodes": 1}' in said

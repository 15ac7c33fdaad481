"""A call's end has one class, by the words that its rows keep."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.failure_class import FailureClass, classify, code_of
from shared.model.outcome import Status
from tests.factories import make_ended
from workers.appserver.limits import read_turn_error


@pytest.mark.req("O06")
@pytest.mark.parametrize(
    ("status", "reason", "word"),
    [
        ("completed", None, "task"),
        ("null_model", "no_answer", "model"),
        ("null_model", "schema_invalid", "model"),
        ("refused", "result_not_storable", "model"),
        ("refused", "pair_refused", "policy"),
        ("refused", "repository_changed", "policy"),
        ("refused", "flow_error", "task"),
        ("held", "quota", "quota"),
        ("held", "budget", "quota"),
        ("held", "deadline", "policy"),
        ("held", "cancel", "policy"),
        ("held", "host_infra_policy", "policy"),
        ("held", "host_infra_context", "model"),
        ("held", "host_infra_overloaded", "infra"),
        ("held", "host_infra_auth", "infra"),
        ("held", "worktree_failed", "infra"),
        ("held", "recovery_hold", "infra"),
        ("held", "a_word_of_tomorrow", "infra"),
        ("held", None, "infra"),
        ("outcome_unknown", "answer_lost", "infra"),
        ("superseded", "host_lost", "infra"),
        # A call that met a node which held has the class of what held the node.
        ("held", "node_held (held: quota)", "quota"),
        ("held", "node_held (held: node_held (held: deadline))", "policy"),
        ("held", "node_held (outcome_unknown)", "infra"),
    ],
)
def test_the_class_of_an_end_comes_from_its_status_and_reason(status: str, reason: str | None, word: str) -> None:
    assert classify(make_ended(status=status, reason=reason)) == word


@pytest.mark.req("O06")
@pytest.mark.parametrize(
    ("info", "word"),
    [
        ("usageLimitExceeded", "quota"),
        ("sessionBudgetExceeded", "quota"),
        ("contextWindowExceeded", "model"),
        ("serverOverloaded", "infra"),
        ("cyberPolicy", "policy"),
        ("aCodeOfTomorrow", "infra"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "infra"),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "infra"),
    ],
)
def test_a_failed_turn_has_the_class_of_the_servers_code(info: Any, word: str) -> None:
    error = read_turn_error({"message": "quota policy context", "codexErrorInfo": info})
    assert error is not None
    # As a worker records it.
    reason = "quota" if error.reason == "quota" else f"host_infra_{error.reason}"
    failed = make_ended(status="held", reason=reason, facts={"info": error.info, "error": error.message})
    assert classify(failed) == word and code_of(failed) == error.info


def test_the_code_counts_before_the_reason_that_a_worker_made_of_it() -> None:
    unknown_then = make_ended(status="held", reason="host_infra_other", facts={"info": "tooManyDenials"})
    assert classify(unknown_then) is FailureClass.POLICY


@pytest.mark.parametrize(
    ("kind", "output", "word"),
    [
        ("verify", {"passed": False, "ran": True}, "task"),
        ("verify", {"passed": False, "ran": False}, "infra"),
        ("integrate", {"merged": False, "conflicts": ["a.py"]}, "task"),
        ("integrate", {"merged": False, "conflicts": []}, "infra"),
        ("integrate", {"merged": True, "conflicts": []}, "task"),
        ("agent", "any text", "task"),
        ("agent", {"ran": False}, "task"),
    ],
)
def test_an_op_that_did_not_come_to_its_question_says_nothing_of_the_task(kind: str, output: Any, word: str) -> None:
    assert classify(make_ended(kind, output=output)) == word


@given(st.sampled_from(list(Status)), st.none() | st.text(), st.none() | st.text() | st.integers())
def test_every_end_has_a_class_whatever_its_words_are(status: Status, reason: str | None, code: Any) -> None:
    assert classify(make_ended(status=status, reason=reason, facts={"info": code})) in set(FailureClass)

"""Two calls without an answer, or three failed checks, take a node to its next tier."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.base.errors import FlowError
from shared.model.outcome import Ended
from shared.model.tiers import DEFAULT_TIERS, StepWord, check_history, decide_step
from tests.factories import make_ended

TIERS = ("executor", "executor-t1")


def call(role: str = "executor", status: str = "completed", node: str | None = "a") -> Ended:
    return make_ended(status=status, role=role, node_id=node)


NULL = call(status="null_model")
NULL_T1 = call("executor-t1", "null_model")
FAILED = make_ended("verify", output={"passed": False, "ran": True}, node_id="a")
PASSED = make_ended("verify", output={"passed": True, "ran": True}, node_id="a")
NOT_RUN = make_ended("verify", output={"passed": False, "ran": False}, node_id="a")
REJECTED = make_ended("review", output={"verdict": "needs_changes"}, node_id="a")
VERIFIED = make_ended("review", output={"verdict": "verified"}, node_id="a")


@pytest.mark.req("O06")
@pytest.mark.parametrize(
    ("history", "word", "tier"),
    [
        ([], "stay", "executor"),
        ([call()], "stay", "executor"),
        ([NULL], "stay", "executor"),
        ([NULL, call(), NULL], "step", "executor-t1"),
        ([call(), FAILED, call(), FAILED], "stay", "executor"),
        ([call(), FAILED, call(), FAILED, call(), FAILED], "step", "executor-t1"),
        ([call(), FAILED, call(), REJECTED, call(), FAILED], "step", "executor-t1"),
        # What says nothing of the work: passed, not run, held.
        ([call(), PASSED, VERIFIED, NOT_RUN, NOT_RUN, NOT_RUN, FAILED, FAILED], "stay", "executor"),
        ([call(status="held"), call(status="outcome_unknown"), NULL], "stay", "executor"),
        # The next tier begins anew, and there is none above it.
        ([NULL, NULL, NULL_T1], "stay", "executor-t1"),
        ([NULL, NULL, call("executor-t1"), FAILED, FAILED], "stay", "executor-t1"),
        ([NULL, NULL, NULL_T1, NULL_T1], "give_up", None),
        ([NULL, NULL, call("executor-t1"), FAILED, FAILED, FAILED], "give_up", None),
        # A script that asked before and did not step is told the same again.
        ([NULL, NULL, NULL], "step", "executor-t1"),
    ],
)
def test_the_default_rule(history: list[Ended], word: str, tier: str | None) -> None:
    step = decide_step(history, TIERS)
    assert (step.step, step.tier) == (word, tier)


def test_the_reason_says_what_was_counted_and_who_follows() -> None:
    assert (
        decide_step([NULL, FAILED], TIERS).reason
        == "executor goes on after 1 call without an answer and 1 failed check"
    )
    stepped = decide_step([NULL, NULL], TIERS)
    assert stepped.reason == "executor-t1 follows executor after 2 calls without an answer and 0 failed checks"
    assert (stepped.null_models, stepped.failed_checks) == (2, 0)
    assert decide_step([NULL, NULL], ["executor"]).reason.startswith("executor is the last tier")


@pytest.mark.parametrize(
    ("history", "sentence"),
    [
        ([call(), make_ended("clock")], "history[1] is the result of flow.crw.clock; it takes those of flow.agent and"),
        (
            [call("reviewer")],
            "history[0] is the result of a call of role reviewer, which is none of the tiers executor",
        ),
        ([call(node="b")], "history[0] is the result of a call on node b, not on node a"),
        ([make_ended("verify", output={}, node_id="b")], "a call on node b, not on node a"),
    ],
)
def test_a_history_of_something_else_is_refused_by_the_result_at_fault(history: list[Ended], sentence: str) -> None:
    with pytest.raises(FlowError, match=re.escape(sentence)):
        check_history("a", history, TIERS)


def test_a_check_of_no_node_counts_for_the_node_that_it_is_given_for() -> None:
    history = [call(), *[make_ended("verify", output={"passed": False, "ran": True})] * 3]
    check_history("a", history, TIERS)
    assert decide_step(history, TIERS).step is StepWord.STEP


ROLES = ("t0", "t1", "t2")
FINDINGS = st.sampled_from([FAILED, PASSED, REJECTED, NOT_RUN])
CALLS = st.builds(call, st.sampled_from(ROLES), st.sampled_from(["completed", "null_model", "held"]))


@given(st.lists(CALLS | FINDINGS, max_size=20))
def test_a_step_goes_one_tier_up_and_only_the_last_tier_is_given_up(history: list[Ended]) -> None:
    check_history("a", history, ROLES)
    step = decide_step(history, ROLES)
    now = next((str(one.meta.role) for one in reversed(history) if one.meta.kind == "agent"), ROLES[0])
    after = {
        StepWord.STAY: now,
        StepWord.STEP: dict(pairwise(ROLES)).get(now),
        StepWord.GIVE_UP: None,
    }
    assert step.tier == after[step.step]
    assert (step.step is StepWord.STAY) == (step.null_models < 2 and step.failed_checks < 3)
    assert step.step is not StepWord.GIVE_UP or now == ROLES[-1]


@given(st.lists(st.booleans(), max_size=60))
def test_a_script_that_does_what_it_is_told_comes_to_an_end(answers: list[bool]) -> None:
    """Per tier at most two calls without an answer and three failed rounds, whatever happens in which order."""
    history: list[Ended] = []
    tier: str | None = DEFAULT_TIERS[0]
    for answered in answers:
        assert tier is not None
        history += [call(tier), FAILED] if answered else [call(tier, "null_model")]
        step = decide_step(history, DEFAULT_TIERS)
        tier = step.tier
        if step.step is StepWord.GIVE_UP:
            break
    assert len([one for one in history if one.meta.kind == "agent"]) <= len(DEFAULT_TIERS) * (2 - 1 + 3 - 1 + 1)

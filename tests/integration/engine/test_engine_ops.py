"""The ops that the engine answers itself: recorded once, given again whatever the rule would say by now."""

import json
from unittest.mock import patch

import pytest

from scheduler.flow import engine_ops
from scheduler.resume.prefix import plan_prefix
from shared.base import ids
from shared.base.canonical import digest_json
from shared.base.ids import new_run_id
from shared.journal.forking import Renaming, fork
from shared.model.roles import Role
from tests.integration.engine.hands import ROLES, echo, ended
from tests.integration.engine.scripted import HEAD, run
from tests.integration.engine.test_suffix import live_places, superseded
from tests.integration.engine.test_takeover import interrupt

WITH_T1 = {**ROLES, "executor-t1": Role("executor-t1", "m1", "low", "workspace-write", "")}
# At main:3 the class, at main:4 the decision, at main:7 the record.
SCRIPT = """
import os
HEAD = os.environ.get("CRW_TEST_HEAD", "a" * 40)

async def main(flow, args):
    history = [await flow.agent("build", role="executor", node="a") for _ in range(2)]
    why = await flow.crw.classify(history[-1])
    step = await flow.crw.tier_step(node="a", history=history)
    build = await flow.agent("build", role=step["tier"], node="a")
    look = await flow.agent("look", role="reviewer", node="a")
    review = await flow.crw.review(
        node="a", head=HEAD, criteria=["it parses", os.environ.get("CRW_TEST_CRITERION", "it is short")],
        reviewer=look, verdict="needs_changes", findings=[{"text": "no tests", "blocking": True}],
    )
    await flow.crw.noop(n="last")
    return [why.output, step.output, build.meta.role, review.output]
"""
OPS = ["classify", "tier_step", "review"]


def some_null(prepared):
    """The executor has no answer; everybody else has."""
    return (
        ended("null_model", "no_answer", thread_id="t", turn_id="u") if prepared.role == "executor" else echo(prepared)
    )


def stopped_before_the_last(field):
    """A run whose scheduler died while its last op waited for a worker."""
    run_id = field.submit(SCRIPT, roles=WITH_T1)

    def answer(prepared):
        return None if prepared.kind == "noop" else some_null(prepared)

    interrupt(field, run_id, answer, lambda: any(row.kind == "noop" for row in field.calls(run_id, "prepared")))
    return run_id


def answers(field, run_id):
    return {row.kind: json.loads(row.result) for row in field.calls(run_id, "completed") if row.kind in OPS}


def nobody_decides():
    """From here on no rule may run."""
    wrong = AssertionError("what is recorded is not decided again")
    names = ("classify", "decide_step")
    return [patch.object(engine_ops, name, side_effect=wrong) for name in names]


@pytest.mark.req("O06", "O22", "R15", "J47")
@pytest.mark.parametrize("again", ["takeover", "resume"])
def test_a_script_that_runs_again_gets_the_recorded_answers_although_the_rules_have_changed(field, again):
    run_id = stopped_before_the_last(field)
    recorded = answers(field, run_id)
    assert recorded["classify"] == {"class": "model", "status": "null_model", "reason": "no_answer", "code": None}
    assert (recorded["tier_step"]["step"], recorded["tier_step"]["tier"]) == ("step", "executor-t1")
    if again == "resume":
        field.drive(some_null)
        field.resume(run_id)
    first, second = nobody_decides()
    with first, second:
        field.drive(some_null)
    assert field.end(run_id)["status"] == "completed", field.end(run_id)
    assert field.end(run_id)["result"] == [
        recorded["classify"],
        recorded["tier_step"],
        "executor-t1",
        recorded["review"],
    ]
    rows = [row for row in field.calls(run_id, "completed") if row.kind in OPS]
    # One row each, which nobody claimed: it is intent and end at once.
    assert [(row.kind, row.fence, row.attempt) for row in rows] == [(name, None, 0) for name in OPS]
    assert not [row for row in field.calls(run_id, "prepared") if row.kind in OPS]


@pytest.mark.req("O06")
def test_a_rule_that_has_changed_decides_only_what_was_never_decided(field):
    run_id = field.submit(SCRIPT, roles=WITH_T1)
    # The scheduler dies at the second call: nothing is decided yet.
    interrupt(
        field, run_id, lambda prepared: None if prepared.position == 2 else some_null(prepared),
        lambda: any(row.position == 2 for row in field.calls(run_id, "prepared")),
    )  # fmt: skip
    with patch("shared.model.tiers.NULL_MODELS", 3):
        field.drive(some_null)
    assert answers(field, run_id)["tier_step"]["step"] == "stay"
    assert field.end(run_id)["result"][2] == "executor"


@pytest.mark.req("O06", "R07")
def test_a_step_enters_the_input_of_the_next_call_by_its_role(field):
    run_id = stopped_before_the_last(field)
    builds = [row.detail for row in field.calls(run_id, "prepared") if row.detail.get("prompt") == "build"]
    _, before, after = builds
    assert {name for name in before if before[name] != after[name]} == {"role", "input_digest"}


@pytest.mark.req("O22")
def test_the_record_of_a_review_names_head_criteria_verdict_reviewer_and_findings(field):
    run_id = stopped_before_the_last(field)
    (row,) = [row for row in field.calls(run_id, "completed") if row.kind == "review"]
    (look,) = [row for row in field.calls(run_id, "completed") if row.role == "reviewer"]
    criteria = digest_json(["it parses", "it is short"])
    read = {"thread": look.thread_id, "turn": look.turn_id}
    findings = [{"text": "no tests", "blocking": True}]
    assert (row.node_id, row.commit_sha, row.detail["criteria_digest"]) == ("a", HEAD, criteria)
    assert row.detail["reviewer"] == {"call": look.call_id, **read}
    assert json.loads(row.result) == {
        "verdict": "needs_changes", "node": "a", "head": HEAD, "criteria_digest": criteria, "findings": findings,
        "reviewer": read,
    }  # fmt: skip
    # The words of a list of calls, for these that are over as soon as they begin.
    said = {row.kind: row.detail["reason"] for row in field.calls(run_id, "completed") if row.kind in OPS}
    assert said == {"classify": "model", "tier_step": "step", "review": "needs_changes"}


@pytest.mark.req("O22", "R07")
@pytest.mark.parametrize(
    ("variable", "value", "member"),
    [("CRW_TEST_HEAD", "b" * 40, "head"), ("CRW_TEST_CRITERION", "it is fast", "criteria_digest")],
)
def test_a_record_of_another_head_or_other_criteria_does_not_replay_and_says_which(field, variable, value, member):
    run_id = stopped_before_the_last(field)
    field.drive(some_null)
    field.resume(run_id)
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv(variable, value)
        field.drive(some_null)
    assert superseded(field, run_id)["main:7"]["differs"] == [member]
    newest = [row for row in field.calls(run_id, "completed") if row.kind == "review"][-1]
    assert newest.attempt == 1 and newest.request_id == ids.request_id(run_id, newest.call_id, 1)
    assert json.loads(newest.result)[member] == (value if member == "head" else digest_json(["it parses", value]))
    assert live_places(field, run_id, 2) == ["main:8"]


@pytest.mark.req("O06", "O22", "K42")
def test_a_fork_begins_with_the_recorded_answers_and_names_its_own_reviewer(field):
    run_id = stopped_before_the_last(field)
    rows = field.rows(run_id)
    renaming = Renaming.plan(run_id, new_run_id(), rows)
    field.drive(some_null)
    prefix = plan_prefix(rows, ("main", 8), lambda _: None)
    new = fork(field.database, renaming, prefix.rows, "k", "main:8", {"cuts": []}, cleaned_at=None).run_id
    first, second = nobody_decides()
    with first, second:
        field.drive(some_null)
    assert field.end(new)["result"] == field.end(run_id)["result"]
    (started,) = field.events(new, "started")
    assert [row.position for row in field.calls(new, "prepared") if row.seq > started.seq] == [8]
    (row,) = [row for row in field.calls(new, "completed") if row.kind == "review"]
    assert row.detail["reviewer"]["call"] == ids.call_id(new, "main", 6)


@pytest.mark.req("O06", "O22")
@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        ("classify('held')", "flow.crw.classify: result is the result of a call"),
        ("classify(look, look)", "flow.crw.classify takes its arguments by name"),
        ("tier_step(node='a', history=look)", "flow.crw.tier_step: history is a list of results"),
        (
            "tier_step(node='a', history=[now])",
            "history[0] is the result of flow.crw.clock; it takes those of flow.agent",
        ),
        ("tier_step(node='a', history=[look])", "a call of role reviewer, which is none of the tiers executor"),
        ("tier_step(node='a', history=[], tiers=['boss'])", "there is no role 'boss' in this run; use one of"),
        (
            "review(head='main', criteria='c', reviewer=look, verdict='verified')",
            "flow.crw.review: head is a full commit",
        ),
        ("review(head=HEAD, criteria='c', reviewer=look, verdict='fine')", "verdict is one of verified, needs_changes"),
        ("review(head=HEAD, criteria='c', reviewer=now, verdict='verified')", "is the result of flow.crw.clock"),
        (
            "review(head='b' * 40, criteria='c', reviewer=look, verdict='verified')",
            "is the result of a call that read a",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_before_anything_is_written(field, ask, sentence):
    body = f"""
look = await flow.agent("look", role="reviewer", head=HEAD)
now = await flow.crw.clock()
try:
    await flow.crw.{ask}
except flow.FlowError as error:
    return str(error)
"""
    run_id, end = run(field, body, head=f'HEAD = "{HEAD}"\n')
    assert end["status"] == "completed" and sentence in end["result"], end
    assert "\n" not in end["result"]
    assert [row.kind for row in field.calls(run_id, "completed")] == ["agent", "clock"]


def test_a_run_without_the_second_tier_gives_up_on_the_first(field):
    body = """
history = [await flow.agent("build", role="executor", node="a") for _ in range(2)]
return (await flow.crw.tier_step(node="a", history=history)).output
"""
    _, end = run(field, body, some_null)
    assert (end["result"]["step"], end["result"]["tier"]) == ("give_up", None)
    assert end["result"]["reason"].startswith("executor is the last tier")

"""Recorded histories give the decisions they gave when they were recorded, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.cli.render_plan import explained_lines, plan_lines
from scheduler.resume.explain import explain
from scheduler.resume.plan import Plan
from shared.base.errors import RightLost
from shared.model.proof import Verdict
from shared.model.rows import CallRow
from shared.model.tiers import NULL_MODELS
from tests.integration.engine.verdicts import Verdicts
from tests.replay.stored import Stored, decisions_of, load, names

# History -> the position at which it fails, and the words that `explain` has for it.
FAILS = {
    "effect_gone": ("main/1[a]:2", "(e) what it did is not there any more: its files are not what it left"),
    "parent_path": ("main/2[x]:1", "(b) a position of the path above it does not replay: main:1 on the path above it"),
    "other_input": ("main:2", "(c) the script asks something else than was recorded: arguments is not"),
    "other_criteria": ("main:6", "(c) the script asks something else than was recorded: criteria_digest is not what"),
    "facts_changed": ("main/1[b]:1", "(d) facts from outside the run have changed: outside the run slice has changed"),
    "join_results": ("main:2", "(f) the join before it does not replay: the join at main:1 gives other results"),
    "held_moved": ("main:1", "(g) it was held: it was held (quota) and cannot go on in place: its files have changed"),
    "held_unpushed_gone": ("main:1", "(g) it was held: it was held (worktree_failed) and cannot go on in place: its "),
    "held_without_snapshot": ("main:1", "(g) it was held: it was held (worktree_failed) and its files are not known"),
}  # fmt: skip


def decisions(plan: Plan) -> dict[str, str]:
    return {one["position"]: one["decision"] for one in decisions_of(plan)}


@pytest.mark.req("R03", "R04")
@pytest.mark.parametrize("name", names())
def test_a_recorded_history_gives_the_decisions_that_it_gave(name: str) -> None:
    history = load(name)
    plan = history.plan()
    assert decisions_of(plan) == history.decisions
    assert plan.end == history.end


class Taken(Verdicts):
    """The prover of a plan whose run a scheduler took meanwhile."""

    async def verdict(self, rows: Sequence[CallRow]) -> Verdict:
        raise RightLost("the run is driven under a later epoch")


def test_a_run_that_is_taken_while_it_is_planned_has_no_plan_also_where_a_join_meets_it() -> None:
    with pytest.raises(RightLost):
        replace(load("effect_gone"), verdicts=Taken()).plan()


def test_there_is_a_history_for_every_condition_and_every_kind_of_decision() -> None:
    found = [one for name in names() for one in load(name).decisions]
    assert {one["condition"] for one in found} >= set("abcdefg")
    assert {one["decision"] for one in found} == {"replay", "attach", "go_on", "live", "held"}


@pytest.mark.req("R05", "R06", "R07", "R10", "R12", "R13", "R14")
@pytest.mark.parametrize("name", sorted(FAILS))
def test_where_one_condition_alone_fails_explain_names_it_and_what_differs(name: str) -> None:
    history, (place, words) = load(name), FAILS[name]
    plan = history.plan()
    (explained,) = [one for one in explain(history.rows) if one.name == place]
    position = plan.at(place)
    assert position is not None
    text = "\n".join(explained_lines(explained, position))
    assert words in text and "on a resume now: runs live" in text
    # Everything else that does not replay stands behind the one position that fails; a path fails (b) for one above it.
    failing = [one["condition"] for one in decisions_of(plan) if one["condition"] not in (None, "a", "b", "f")]
    assert failing == {"b": ["c"], "f": []}.get(words[1], [words[1]])


def test_the_facts_that_differ_are_told_as_they_were_recorded_and_as_they_are() -> None:
    history = load("facts_changed")
    (explained,) = [one for one in explain(history.rows) if one.name == "main/1[b]:1"]
    assert "slice: recorded 1, now 2" in "\n".join(explained_lines(explained, history.plan().at(explained.name)))


@pytest.mark.req("R07")
def test_a_takeover_ends_a_run_whose_script_asks_something_else() -> None:
    plan = load("other_input_takeover").plan()
    assert "at main:2 arguments is not what was recorded" in plan.end


@pytest.mark.req("R15", "R16", "R20")
def test_an_unknown_outcome_is_held_in_the_middle_of_a_suffix() -> None:
    found = decisions(load("unknown_outcome").plan())
    # The position that would run live touches the node that holds.
    assert found["main/1[a]:3"] == "held" and found["main/1[a]:1"] == "held"
    assert all(found[f"main/1[b]:{number}"] == "replay" for number in (1, 2, 3))


@pytest.mark.req("R40", "R41")
@pytest.mark.parametrize("name", ["held_delivered", "held_not_delivered", "held_unpushed", "held_unpushed_open"])
def test_a_held_call_goes_on_in_place_and_what_is_behind_it_runs_live(name: str) -> None:
    assert decisions(load(name).plan()) == {"main:1": "go_on", "main:2": "live"}


@pytest.mark.req("R41")
def test_of_a_held_call_whose_push_alone_is_left_the_plan_says_that_no_turn_is_sent() -> None:
    (done, more) = [load(name).plan().at("main:1") for name in ("held_unpushed", "held_unpushed_open")]
    assert done is not None and done.note is not None and "its recorded answer stands" in done.note
    assert more is not None and more.note is None


def test_journals_of_an_older_version_replay_although_their_digests_were_taken_otherwise() -> None:
    history = load("older_version")
    assert set(decisions(history.plan()).values()) == {"replay"}


@pytest.mark.req("O06", "O22")
def test_what_the_engine_decided_stands_although_todays_rule_would_decide_otherwise() -> None:
    history = load("engine_ops")
    plan = history.plan()
    assert set(decisions(plan).values()) == {"replay"} and plan.end == "completed"
    # The recorded step went up after one call without an answer, which today is one too few.
    builds = [row for row in history.rows if isinstance(row, CallRow) and row.event == "null_model"]
    assert len(builds) < NULL_MODELS and plan.at("main:4").role == "executor-t1"


def test_a_plan_says_what_the_live_part_cost_last_time() -> None:
    history = load("parent_path")
    plan = history.plan()
    assert plan.tokens == sum(one.tokens_last_time or 0 for one in plan.positions) > 0
    assert any("tokens last time" in line for line in plan_lines(plan))


def test_a_history_is_read_as_it_was_stored() -> None:
    history = load("all_proven")
    assert isinstance(history, Stored) and [row.seq for row in history.rows] == list(range(1, len(history.rows) + 1))

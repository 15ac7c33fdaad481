"""What a plan comes to, in words."""

from __future__ import annotations

import pytest

from scheduler.cli.render_plan import explain_table, explained_lines, plan_lines
from scheduler.resume.explain import explain
from scheduler.resume.plan import Plan, Planned, PlannedPosition
from shared.model.rows import CallRow, EventRow
from tests.factories import make_call_row, make_event_row


def plan_of(*decisions: Planned, end: str = "completed") -> Plan:
    positions = (PlannedPosition(("main", number), one, "agent") for number, one in enumerate(decisions, 1))
    return Plan(tuple(positions), end)


@pytest.mark.parametrize("decisions", [(), (Planned.REPLAY, Planned.REPLAY)])
def test_a_plan_that_only_replays_says_that_it_costs_nothing(decisions):
    assert plan_lines(plan_of(*decisions))[1:] == [
        "everything replays: the resume comes to the end of the script and costs nothing"
    ]


def test_a_plan_with_a_held_position_does_not_say_that_everything_replays():
    first, second = plan_lines(plan_of(Planned.REPLAY, Planned.HELD))
    assert first == "1 replay, 1 stay held"
    assert second == "nothing is asked for anew: the resume comes to the end of the script and costs nothing"


def test_a_plan_that_goes_on_tells_the_cost_and_no_end():
    assert plan_lines(plan_of(Planned.REPLAY, Planned.LIVE, end="goes_on")) == [
        "1 replay, 1 run live", "what runs live cost 0 tokens last time",
    ]  # fmt: skip


def test_an_attempt_that_was_taken_back_and_not_followed_is_not_shown_as_its_end():
    taken = {"reason": "superseded_by_resume", "lineage": 1, "condition": "a", "at": "main:1", "sentence": "gone"}
    rows = [
        make_call_row(event="prepared", detail={"input_digest": "d", "lineage": 0}),
        make_call_row(event="completed"),
        make_call_row(event="superseded", detail=taken),
    ]
    table = explain_table(explain(rows), None)
    assert dict(zip(table.heads, table.rows[0], strict=True))["ENDED"] == "taken back"
    again = [*rows, make_call_row(event="prepared", detail={"input_digest": "d", "lineage": 1}, attempt=1)]
    table = explain_table(explain(again), None)
    assert dict(zip(table.heads, table.rows[0], strict=True))["ENDED"] == "open"


def test_processes_are_named_as_people_count_them_and_copied_calls_by_their_run():
    def began(seq: int, lineage: int, how: str) -> EventRow:
        return make_event_row(seq=seq, kind="started", data={"lineage": lineage, "how": how})

    def ran(seq: int, position: int, attempt: int, lineage: int) -> CallRow:
        detail = {"input_digest": "d", "lineage": lineage}
        return make_call_row(seq=seq, position=position, attempt=attempt, detail=detail)

    taken = {"reason": "superseded_by_resume", "lineage": 1, "condition": "e", "at": "main:2", "sentence": "gone"}
    rows = [
        make_event_row(seq=1, kind="forked", data={"run": "rother", "at": "main:2", "rows": 1}),
        ran(2, 1, 0, 3),
        began(3, 0, "start"), ran(4, 2, 0, 0),
        began(5, 1, "takeover"), make_call_row(seq=6, position=2, event="superseded", detail=taken), ran(7, 2, 1, 1),
        began(8, 2, "resume"), ran(9, 3, 0, 2),
    ]  # fmt: skip
    copied, again, last = ("\n".join(explained_lines(one, None)) for one in explain(rows))
    assert "attempt 1: ran in run rother, " in copied
    assert "attempt 1: ran when the run began, " in again and "taken back by takeover 1:" in again
    assert "attempt 2: ran in takeover 1, " in again and "attempt 1: ran in resume 1, " in last

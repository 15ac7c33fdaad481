"""Which calls of a lost host run again: only those whose second run can be no second effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.lost_calls import plan_end, why_not_again
from shared.journal.open_calls import OpenCallState
from shared.model.roles import Role
from shared.model.rows import CallRow
from tests.factories import make_call_row

EXECUTOR = Role("executor", "m", "low", "workspace-write", "")


def _turn(**detail: Any) -> CallRow:
    return make_call_row(event="turn_requested", host="h1", detail=detail)


@pytest.mark.req("RULE19")
@pytest.mark.parametrize(
    ("kind", "role", "why"),
    [
        ("agent", EXECUTOR, None),
        ("agent", replace(EXECUTOR, sandbox="read-only"), None),
        ("agent", replace(EXECUTOR, sandbox="read-only", network=True), None),
        ("agent", replace(EXECUTOR, network=True), "network"),
        ("agent", replace(EXECUTOR, sandbox="danger-full-access"), "danger-full-access"),
        ("agent", None, "role"),
        ("commit", None, None),
        ("verify", None, None),
        ("integrate", None, None),
        ("deploy", None, "does not say"),
    ],
)
def test_a_closed_sandbox_and_a_rerunnable_op_run_again_and_nothing_else(
    kind: str, role: Role | None, why: str | None
) -> None:
    said = why_not_again(kind, role, [_turn()])
    assert said is None if why is None else said is not None and why in said


@pytest.mark.req("RULE19")
def test_agents_that_had_more_than_their_host_do_not_run_again() -> None:
    assert "MCP" in str(why_not_again("agent", EXECUTOR, [_turn(local_only=False)]))
    assert why_not_again("agent", EXECUTOR, [_turn(local_only=True)]) is None


@pytest.mark.req("RULE19", "K38")
def test_the_last_row_says_which_host_was_given_up_and_what_follows() -> None:
    call = OpenCallState("c", "main", 1, "agent", "executor", None, "n", "lost", None, None, True, 0, 0, 3, None, None)
    again, unknown = plan_end(call, EXECUTOR, [_turn()]), plan_end(call, None, [_turn()])
    assert (again.row.event, again.row.detail["reason"], again.row.detail["host"]) == ("superseded", "host_lost", "h1")
    assert unknown.row.event == "outcome_unknown" and "role" in unknown.row.detail["error"]


@pytest.mark.req("R38")
def test_what_is_taken_back_names_the_directory_that_goes_with_it_and_what_is_unknown_names_none() -> None:
    call = OpenCallState("c", "main", 1, "agent", "reviewer", None, None, "lost", None, None, True, 0, 0, 3, None, None)
    placed = make_call_row(event="placed", host="h1", detail={"own_directory": "/state/calls/c/wt"})
    reader = replace(EXECUTOR, sandbox="read-only")
    assert plan_end(call, reader, [placed, _turn()]).row.detail["own_directory"] == "/state/calls/c/wt"
    assert "own_directory" not in plan_end(call, None, [placed, _turn()]).row.detail

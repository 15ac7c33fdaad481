"""The calls that a run still has at work when it ends: who is waited for, who is given up, who may still push.

A run ends when none of its calls is at work. What nobody claimed is withdrawn, what a
worker holds it ends itself, and a call whose silent host was given up (its claim is
`lost`) gets its last row from the run. Before that row, the guard on the hub is
moved, so that a push of that host, whenever it wakes, moves no target.
Source: journal document, "Persistence"; rules of the protocol, 7, 27 and 28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shared.base.errors import GitError
from shared.base.log import get_logger
from shared.hub.git import Git
from shared.hub.guard import move_guard
from shared.hub.push import patiently
from shared.journal.append import EndedCall
from shared.journal.claims import OpenCallState, held_still
from shared.journal.database import Database
from shared.journal.read import load_call
from shared.journal.runs import load_spec
from shared.model.rows import EventRow, NewCallRow, NewEventRow, Row

_HUB_TIMEOUT_SECONDS = 30.0
_HUB_PATIENCE_SECONDS = 10.0


def plan_cancel_waiting(calls: Iterable[OpenCallState]) -> NewEventRow | None:
    """The row that names the ops which the cancelled run waits for; None when it waits for none.

    Shape: `calls` {call_id, op, node} each, by call id; `node` is empty for an op without one.
    """
    ops = [
        {"call_id": call.call_id, "op": call.kind, "node": call.node_id or ""}
        for call in sorted(calls, key=lambda call: call.call_id)
        if call.kind != "agent" and call.state in ("claimed", "stranded", "lost")
    ]
    return NewEventRow("cancel_waiting", {"calls": ops}) if ops else None


def tell_waiting(database: Database, run_id: str, write: Callable[[NewEventRow], object]) -> None:
    """Name the ops that the cancelled run waits for. None of them can end before that row stands.

    Args:
        write: writes the row and returns when it is committed.

    Raises:
        StoreUnavailable: the database went away; whether the row stands is not known.
    """
    with held_still(database, run_id) as calls:
        waiting = plan_cancel_waiting(calls)
        if waiting is not None:
            write(waiting)


def was_told(rows: Iterable[Row]) -> bool:
    """Whether an earlier process that was ending this run has said what it waits for."""
    return any(isinstance(row, EventRow) and row.kind == "cancel_waiting" for row in rows)


def end_lost(database: Database, run_id: str, calls: Sequence[OpenCallState]) -> tuple[EndedCall, ...]:
    """The last rows of the calls whose host was given up; their pushes are shut out when this returns.

    What they had sent is not known, so each is `outcome_unknown`. A guard that cannot be moved is said there.
    """
    lost = [call for call in calls if call.state == "lost"]
    if not lost:
        return ()
    error = _shut_out(database, run_id) if any(_may_push(database, call) for call in lost) else None
    facts = {"reason": "cancel", "error": "its host was silent when the cancel was over"}
    if error is not None:
        facts["guard_error"] = error
    return tuple(
        EndedCall(
            call.call_id, call.path, call.position, call.kind, call.node_id, call.request_id, call.attempt,
            NewCallRow("outcome_unknown", facts, role=call.role, label=call.label),
        )
        for call in lost
    )  # fmt: skip


def _may_push(database: Database, call: OpenCallState) -> bool:
    """Whether the call announced a push that the guard goes along with."""
    rows = load_call(database, call.call_id)
    return any(row.event == "push_requested" and "guard" in row.detail for row in rows)


def _shut_out(database: Database, run_id: str) -> str | None:
    """Move the guard; what stood in the way where it cannot be moved."""
    git, hub = Git(_HUB_TIMEOUT_SECONDS), load_spec(database, run_id).hub
    try:
        patiently(lambda: move_guard(git, hub, run_id, "cancel"), lambda: False, _HUB_PATIENCE_SECONDS)
    except GitError as error:
        get_logger().error("guard_not_moved", run=run_id, error=str(error))
        return f"the guard on the hub could not be moved: {error}"
    get_logger().info("guard_moved", run=run_id)
    return None

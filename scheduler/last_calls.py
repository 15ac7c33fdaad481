"""The calls that a run still has at work when it ends: who is waited for, who is given up, who may still push.

A run ends when none of its calls is at work. What nobody claimed is withdrawn, what a
worker holds it ends itself, and a call whose silent host was given up (its claim is
`lost`) gets its last row from the run. Before that row, the guard on the hub is
moved, so that a push of that host, whenever it wakes, moves no target.
Source: journal document, "Persistence"; rules of the protocol, 7, 27 and 28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from scheduler.guarding import may_push, shut_out
from shared.journal.append import EndedCall
from shared.journal.database import Database
from shared.journal.open_calls import OpenCallState, held_still
from shared.model.rows import EventRow, NewCallRow, NewEventRow, Row


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
    """Whether an earlier process that was ending this run has said what it waits for, since the run was resumed."""
    told = False
    for row in rows:
        if isinstance(row, EventRow) and row.kind in ("cancel_waiting", "finished"):
            told = row.kind == "cancel_waiting"
    return told


def end_lost(database: Database, run_id: str, calls: Sequence[OpenCallState]) -> tuple[EndedCall, ...]:
    """The last rows of the calls whose host was given up; their pushes are shut out when this returns.

    What they had sent is not known, so each is `outcome_unknown`. A guard that cannot be moved is said there.
    """
    lost = [call for call in calls if call.state == "lost"]
    if not lost:
        return ()
    pushes = may_push(database, (call.call_id for call in lost))
    error = shut_out(database, run_id, "cancel") if pushes else None
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

"""What there is to prove of a call, who can, and what the rows alone say of it. Pure.

Source: journal document, "The proofs"; settled conflict of one question per host and resume.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.resume.attempts import newest_request
from shared.base.canonical import parse
from shared.model.allocation import NODE_KINDS
from shared.model.boundary import without_withdrawn
from shared.model.events import TERMINAL_WORDS
from shared.model.proof import PROVEN, Verdict
from shared.model.rows import CallRow, Row

_COULD_NOT_RUN = Verdict(
    False, "did_not_run", "the verification could not run then (no such command, or setup failed): it is asked again"
)


@dataclass(frozen=True)
class Effect:
    """An effect that only a host, or the hub, can speak of.

    Shape: `node` the node whose worktree has it; None for a merge on the hub, which is
    `commit` on `ref`, made by `host`.
    """

    call_id: str
    node: str | None = None
    host: str | None = None
    commit: str | None = None
    ref: str | None = None


def node_hosts(rows: Iterable[Row]) -> dict[str, str]:
    """Node -> the host of its newest worktree."""
    return {
        row.node_id: row.host
        for row in rows
        if isinstance(row, CallRow)
        and row.event == "placed"
        and row.worktree_kind in NODE_KINDS
        and row.node_id is not None
        and row.host is not None
    }


def find_effect(rows: Sequence[CallRow]) -> Effect | Verdict:
    """The effect of an ended call, or the verdict that its rows give.

    Calls that did not complete, agents that work in no worktree and ops without an
    effect outside the journal have nothing to prove.
    """
    for end in reversed(rows):
        if end.event in TERMINAL_WORDS:
            break
    else:
        return PROVEN
    if end.event != "completed":
        return PROVEN
    if end.kind == "verify":
        return PROVEN if _ran(end) else _COULD_NOT_RUN
    if end.kind == "integrate" and end.commit_sha is not None:
        return Effect(end.call_id, host=end.host, commit=end.commit_sha, ref=str(end.detail.get("ref")))
    if end.node_id is not None and (end.kind == "commit" or end.pending_tree is not None):
        return Effect(end.call_id, end.node_id)
    return PROVEN


def find_hold(rows: Sequence[CallRow]) -> CallRow | None:
    """The row that held a call; None when its last end is another."""
    end = next((row for row in reversed(without_withdrawn(rows)) if row.event in TERMINAL_WORDS), None)
    return end if end is not None and end.event == "held" else None


def left_state(held: CallRow) -> bool:
    """Whether a held call worked in its node's worktree: it recorded what it left there, or why it could not."""
    return held.node_id is not None and (held.held_tree is not None or "pending_tree_error" in held.detail)


def standing_place(rows: Sequence[CallRow]) -> tuple[str | None, str | None]:
    """`(thread, host)` of a call's newest request: its thread and who has it; without one, its directory's host."""
    newest = newest_request(rows)
    for row in reversed(newest):
        if row.thread_id is not None:
            return row.thread_id, row.host
    return None, next((row.host for row in reversed(newest) if row.event == "placed"), None)


def standing_worker(rows: Sequence[CallRow]) -> str | None:
    """The worker of the newest row of a call's newest request that names one: it had the host's home of then."""
    named = (row.detail.get("worker_id") for row in reversed(newest_request(rows)))
    return next((str(worker) for worker in named if worker), None)


def _ran(end: CallRow) -> bool:
    ran = end.detail.get("ran")
    if ran is None and end.result is not None:
        # Rows of an older version say so in the result alone.
        ran = parse(end.result).get("ran")
    return ran is not False

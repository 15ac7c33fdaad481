"""Held calls: whether one may go on in place by its rows, before its host is asked. Pure.

An agent's call goes on in its thread and directory, an op under its own request. A
worktree whose state at the hold could not be recorded has nothing to be compared
with, so its files are not known to be the call's: that one runs again from the boundary.
A state that its host alone has will do as long as it is there, which the host is asked.
Source: journal document, "Held calls".
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.resume.attempts import live_again
from scheduler.resume.decisions import Failed, GoOn, Live, Place
from shared.model.allocation import AllocationKind
from shared.model.call_state import read_call_state
from shared.model.rows import CallRow
from shared.model.unpushed import Unpushed, tree_at_hold

DELIVERED, NOT_DELIVERED = "delivered", "not_delivered"


def decide_held(rows: Sequence[CallRow], last: CallRow, place: Place) -> GoOn | Live:
    """Whether the call whose last event is the held row `last` goes on in place; (a) to (d) and (f) hold."""
    reason = str(last.detail.get("reason") or "held")
    if _state_is_lost(rows, last):
        said = last.detail.get("pending_tree_error") or "the state of its worktree was not recorded"
        sentence = f"it was held ({reason}) and its files are not known to be its own: {said}"
        return live_again(rows, Failed("g", place, sentence, facts={"hold": reason}))
    unpushed = Unpushed.read(last)
    answered = unpushed is not None and unpushed.result is not None
    return GoOn(rows, input_state_of(rows, last), reason, rows[-1].attempt + 1, answered)


def input_state_of(rows: Sequence[CallRow], last: CallRow) -> str:
    """Whether the input of a held call had reached its thread: as its held row says, else as its turns tell."""
    if last.input_state is not None:
        return last.input_state
    turns = read_call_state(rows).turns
    return DELIVERED if any(turn.lost is None for turn in turns) else NOT_DELIVERED


def _state_is_lost(rows: Sequence[CallRow], last: CallRow) -> bool:
    """Whether it had a node's worktree and nobody knows what it left there."""
    if last.kind != "agent" or tree_at_hold(last) is not None:
        return False
    placed = read_call_state(rows).placed
    return placed is not None and placed.node_id is not None and placed.worktree_kind != AllocationKind.CALL

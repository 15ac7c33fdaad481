"""How a conversation goes on: in the same thread, in a fork, or in a new thread that is told of it.

A thread is its home's: no other home can load or fork it. A thread that runs in a
directory which has been replaced is left alone and forked into the new one, and so is
any thread of an earlier process inside a resume's suffix. Where there is nothing to
fork, a new thread begins with a packet made from the journal.
Source: journal document, "The suffix"; settled conflict of the thread's home.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from shared.model.origin import Origin
from shared.model.rows import CallRow, NewCallRow
from workers.call.context import AgentCall


class Rung(StrEnum):
    """The ladder, best first."""

    SAME_THREAD = "same_thread"
    FORK = "fork"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Conversation:
    """How a conversation goes on. Shape: `reason` a word: why it is this rung and no better one."""

    rung: Rung
    reason: str

    def row(self, call: AgentCall) -> NewCallRow:
        """The row that says so."""
        last = call.state.last_turn
        thread, through = (last.thread_id, last.turn_id) if last else map(call.context.get, ("thread", "through_turn"))
        detail = {"rung": self.rung.value, "reason": self.reason, "through_turn": through, "thread": thread}
        return NewCallRow("conversation", detail)


def plan_conversation(call: AgentCall, host: str, home_id: str, *, restored: bool) -> Conversation | None:
    """The rung that a call's conversation goes on by, as far as rows tell; None for a call that starts one.

    Args:
        host, home_id: where the call is now.
        restored: its directory is a new one, made for it.
    """
    if not call.continues:
        return None
    recorded = recorded_conversation(call)
    if recorded is not None:
        return recorded
    origin = _home_of(call.previous)
    if origin is not None and origin.home_id != home_id:
        return Conversation(Rung.CHECKPOINT, "other_host" if origin.host != host else "other_home")
    if call.context.get("how") != "fork" and not restored:
        return Conversation(Rung.SAME_THREAD, "same_home")
    if call.context.get("through_turn") is None:
        return Conversation(Rung.CHECKPOINT, "no_turn")
    return Conversation(Rung.FORK, "earlier_process" if call.context.get("how") == "fork" else "restored_directory")


def recorded_conversation(call: AgentCall) -> Conversation | None:
    """The rung that an earlier holder of the attempt took; None when none did."""
    row = call.state.conversation
    return Conversation(Rung(row.detail["rung"]), str(row.detail["reason"])) if row is not None else None


def _home_of(rows: Sequence[CallRow]) -> Origin | None:
    """Where the thread of a call was asked for last."""
    for row in reversed(rows):
        origin = Origin.read(row.detail)
        if origin is not None:
            return origin
    return None

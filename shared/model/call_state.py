"""How far the newest attempt of a call came, and what settles it. Pure: rows in, facts out.

An intent says that a request may have left, an observation that something was seen. A
crash loses observations, never intents: so what follows here from an intent alone is
"may have happened", and only the host of the call can say more.

    not_asked       nothing was asked of the App Server: the call may run from its start
    thread_asked    a thread was asked for and no turn sent on it: it has no effect and is made again
    turn_open       a turn was asked for and not seen ended: it is looked up, never sent again
    turn_ended      every turn was seen ended or proven not delivered: the call goes on behind the last
    ended           the attempt has its terminal row

Source: journal document, "Persistence" and "Held calls"; App Server document, "The App Server backend".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from shared.model.events import REOPENING_WORDS, TERMINAL_WORDS
from shared.model.operation import parse_operation
from shared.model.origin import Origin
from shared.model.outcome import RESTORE_MISMATCH
from shared.model.rows import CallRow
from shared.model.sent_turn import SentTurn, see


class Step(StrEnum):
    """How far an attempt came."""

    NOT_ASKED = "not_asked"
    THREAD_ASKED = "thread_asked"
    TURN_OPEN = "turn_open"
    TURN_ENDED = "turn_ended"
    ENDED = "ended"


@dataclass(frozen=True)
class CallState:
    """The newest attempt of a call, with what was done in place under later attempts of the same `prepared` row.

    Shape:
        placed: the newest `placed` row.
        conversation: the row that says how an earlier conversation goes on; None for a call that starts one.
        checkpoint: the row with what the call's thread is told in place of a conversation.
        cleared: the `hold_cleared` row that a held call goes on behind, until something was asked for again.
        creations: how many threads were asked for, forks among them: the newest creation's ordinal.
        thread: the row of the thread in use, made or forked; None when there is none, or it is gone.
        terminal: the row that ended it, None while it is open.
    """

    prepared: CallRow | None = None
    placed: CallRow | None = None
    conversation: CallRow | None = None
    checkpoint: CallRow | None = None
    cleared: CallRow | None = None
    creations: int = 0
    thread: CallRow | None = None
    turns: tuple[SentTurn, ...] = ()
    terminal: CallRow | None = None

    @property
    def step(self) -> Step:
        """How far it came."""
        if self.terminal is not None:
            return Step.ENDED
        if self.turns:
            return Step.TURN_OPEN if self.turns[-1].open else Step.TURN_ENDED
        return Step.THREAD_ASKED if self.creations else Step.NOT_ASKED

    @property
    def last_turn(self) -> SentTurn | None:
        """The turn that was sent last."""
        return self.turns[-1] if self.turns else None

    @property
    def turns_sent(self) -> int:
        """The newest turn's ordinal: no later send may use it again."""
        return max((turn.ordinal for turn in self.turns), default=0)

    @property
    def repair_used(self) -> bool:
        """Whether the call's one repair turn was delivered or may have been."""
        return any(turn.repair and turn.lost is None for turn in self.turns)

    @property
    def cuts(self) -> int:
        """How many turns died with what ran them."""
        return sum(turn.cut for turn in self.turns)

    @property
    def is_unknown(self) -> bool:
        """Whether it ended without anybody knowing what came of it, and that was not cleared since."""
        return self.terminal is not None and is_unknown_end(self.terminal)


RECOVERY_HOLD = "recovery_hold"
"""The reason of a call that meets a node whose outcome has to be recovered first."""


def is_unknown_end(row: CallRow) -> bool:
    """Whether a terminal row says that something was sent and nobody knows what came of it.

    A call whose restored worktree was not what it should be had sent nothing: the next resume
    restores its node once more and runs it again.
    """
    return row.event == "outcome_unknown" and row.detail.get("reason") != RESTORE_MISMATCH


def read_call_state(rows: Sequence[CallRow]) -> CallState:
    """Fold a call's rows, oldest first, from its newest `prepared` row on."""
    state = CallState()
    for row in rows:
        state = _take(state, row)
    return state


def begins_attempt(row: CallRow) -> bool:
    """Whether a row says what is asked: `prepared`, or the one row of a call that ended as it began."""
    return row.event == "prepared" or "input_digest" in row.detail


# Rows of which the newest one stands in the state as it is.
_KEPT_ROWS: dict[str, str] = {
    "placed": "placed",
    "conversation": "conversation",
    "checkpoint_started": "checkpoint",
    "hold_cleared": "cleared",
    "thread_started": "thread",
    "fork_started": "thread",
}


def _take(state: CallState, row: CallRow) -> CallState:
    word = row.event
    if begins_attempt(row):
        state = CallState(prepared=row)
    if word in TERMINAL_WORDS:
        return replace(state, terminal=row)
    if word in REOPENING_WORDS:
        state = replace(state, terminal=None)
    if word in _KEPT_ROWS:
        kept: dict[str, Any] = {_KEPT_ROWS[word]: row}
        return replace(state, **kept)
    if word in ("thread_requested", "fork_requested"):
        # Behind turns that had arrived a new thread takes the place of one that is gone: it has not been asked yet.
        cleared = state.cleared if state.turns else None
        return replace(state, creations=state.creations + 1, thread=None, cleared=cleared)
    if word == "turn_requested":
        return replace(state, turns=(*state.turns, _sent_turn(state, row)), cleared=None)
    if not state.turns:
        return state
    last = see(state.turns[-1], row)
    gone = last.lost is row and bool(row.detail.get("thread_gone"))
    return replace(state, turns=(*state.turns[:-1], last), thread=None if gone else state.thread)


def _sent_turn(state: CallState, row: CallRow) -> SentTurn:
    operation = str(row.operation or row.detail.get("operation"))
    parsed = parse_operation(operation)
    thread_id = str(row.thread_id or "")
    earlier = any(turn.thread_id == thread_id and turn.lost is None for turn in state.turns)
    return SentTurn(
        ordinal=parsed[1] if parsed else state.turns_sent + 1,
        operation=operation,
        thread_id=thread_id,
        origin=Origin.read(row.detail),
        packet=row.detail.get("packet"),
        repair=bool(row.detail.get("repair")),
        first=state.creations > 0 and not earlier,
        repository=row.detail.get("repository"),
    )

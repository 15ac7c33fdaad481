"""A turn that was announced, and what the rows behind its intent say about it. Pure: rows in, facts out.

Source: journal document, "Persistence" and "Held calls"; App Server document, "The App Server backend".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.model.origin import Origin
from shared.model.rows import CallRow


@dataclass(frozen=True)
class SentTurn:
    """A turn that was announced.

    Shape:
        packet: what its input was made of, None when the intent did not say.
        first: whether this call made the thread and this is the first turn on it.
        repository: what a reading call's directory held before its turn, as the intent recorded it.
        turn_id: the server's id, None when its answer was not recorded.
        delivered: its input was seen on the server's disk.
        interrupt: why it was to be interrupted, None when it was not.
        ended, lost: the row that saw its end, or that proved it was not delivered.
    """

    ordinal: int
    operation: str
    thread_id: str
    origin: Origin | None = None
    packet: Mapping[str, Any] | None = None
    repair: bool = False
    first: bool = False
    repository: Mapping[str, Any] | None = None
    turn_id: str | None = None
    delivered: bool = False
    interrupt: str | None = None
    ended: CallRow | None = None
    lost: CallRow | None = None

    @property
    def open(self) -> bool:
        """Whether what came of it is not known from the rows."""
        return self.ended is None and self.lost is None

    @property
    def cut(self) -> bool:
        """Whether it was ended by the death of what ran it, or never came to run."""
        return self.lost is not None or bool(self.ended is not None and self.ended.detail.get("cut"))


def see(turn: SentTurn, row: CallRow) -> SentTurn:
    """What a row behind a turn's intent says about it."""
    if row.event == "turn_started":
        return replace(turn, turn_id=row.turn_id)
    if row.event == "user_message_seen":
        return replace(turn, delivered=True)
    if row.event == "interrupt_requested":
        return replace(turn, turn_id=row.turn_id or turn.turn_id, interrupt=str(row.detail.get("reason")))
    if row.event == "turn_ended":
        return replace(turn, turn_id=row.turn_id or turn.turn_id, ended=row)
    if row.event == "turn_lost":
        return replace(turn, lost=row)
    return turn

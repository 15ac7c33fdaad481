"""What a resume would do, position by position: values to be shown. Pure.

    replay   the recorded result stands; it costs nothing
    attach   somebody is at the call; its end is waited for
    go_on    a held call goes on in place
    live     it runs now, and costs what it costs
    held     nothing may touch it: its outcome is unknown, or its node holds
    waits    whether it replays only a silent host can say

Source: design of the farm, "Room to leave" (what a resume would replay, run and hold).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduler.resume.decisions import Failed, Place, place_name
from shared.model.events import TERMINAL_WORDS
from shared.model.rows import CallRow


class Planned(StrEnum):
    """What becomes of a position."""

    REPLAY = "replay"
    ATTACH = "attach"
    GO_ON = "go_on"
    LIVE = "live"
    HELD = "held"
    WAITS = "waits"


CONDITIONS = {
    "a": "a position before it on its path does not replay",
    "b": "a position of the path above it does not replay",
    "c": "the script asks something else than was recorded",
    "d": "facts from outside the run have changed",
    "e": "what it did is not there any more",
    "f": "the join before it does not replay",
    "g": "it was held",
}


@dataclass(frozen=True)
class PlannedPosition:
    """One position of a plan.

    Shape:
        call_id: None for a position never opened.
        because: the condition that fails; None where all hold, or nothing was recorded.
        tokens_last_time: what its newest ended attempt cost; None when nothing was counted.
    """

    place: Place
    decision: Planned
    kind: str
    call_id: str | None = None
    node: str | None = None
    role: str | None = None
    label: str | None = None
    because: Failed | None = None
    tokens_last_time: int | None = None
    note: str | None = None

    @property
    def what(self) -> str:
        """Its role, or its op."""
        return (self.role or self.kind) if self.kind == "agent" else self.kind

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        because = self.because
        return {
            "position": place_name(self.place),
            "path": self.place[0],
            "call": self.call_id,
            "kind": self.kind,
            "role": self.role,
            "node": self.node,
            "label": self.label,
            "decision": str(self.decision),
            "condition": because.condition if because else None,
            "sentence": because.sentence if because else self.note,
            "differs": list(because.differs) if because else [],
            "facts": dict(because.facts) if because else {},
            "tokens_last_time": self.tokens_last_time,
        }


def planned(
    rows: Sequence[CallRow], decision: Planned, because: Failed | None = None, note: str | None = None
) -> PlannedPosition:
    """A recorded position of a plan."""
    last = rows[-1]
    named = [row for row in rows if row.role is not None or row.label is not None]
    shown = named[-1] if named else last
    return PlannedPosition(
        (last.path, last.position), decision, last.kind, last.call_id, last.node_id, shown.role, shown.label, because,
        tokens_of(rows), note,
    )  # fmt: skip


def tokens_of(rows: Sequence[CallRow]) -> int | None:
    """What the newest attempt that counted tokens cost: its terminal row has the sum of its turns."""
    for row in reversed(rows):
        if row.event in TERMINAL_WORDS and row.tokens is not None:
            return row.tokens
    return None


@dataclass(frozen=True)
class Plan:
    """What a resume would do with a run.

    Shape: `positions` in the order of paths and positions; `end` says what the script came to on
    what is recorded: `completed` when all of it replays, `goes_on` when it waits for something
    live, else the sentence of its error.
    """

    positions: tuple[PlannedPosition, ...]
    end: str

    def count(self, decision: Planned) -> int:
        """How many positions come to this."""
        return sum(one.decision is decision for one in self.positions)

    @property
    def tokens(self) -> int:
        """What the part that runs live cost last time."""
        return sum(one.tokens_last_time or 0 for one in self.positions if one.decision is Planned.LIVE)

    def at(self, place: str) -> PlannedPosition | None:
        """The position with this name."""
        return next((one for one in self.positions if place_name(one.place) == place), None)

    def live(self) -> list[str]:
        """The recorded positions that would run live."""
        found = (one for one in self.positions if one.decision is Planned.LIVE and one.call_id is not None)
        return sorted(place_name(one.place) for one in found)


def in_order(positions: Iterable[PlannedPosition]) -> tuple[PlannedPosition, ...]:
    """Paths as they sort, positions as they count."""
    return tuple(sorted(positions, key=lambda one: one.place))

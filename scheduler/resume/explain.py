"""Why each position of a run is as it is: its attempts, and which condition ended each. Pure: rows in, values out.

Source: design of the farm, "Room to leave" (why a position replayed or ran).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.resume.decisions import Failed, Place, place_name
from shared.model.call_state import begins_attempt
from shared.model.events import TERMINAL_WORDS
from shared.model.rows import CallRow, Row


@dataclass(frozen=True)
class Attempt:
    """One attempt of a call.

    Shape:
        lineage: the process that opened it: 0 for the first, one more for each resume; None where a row does not say.
        in_place: whether it goes on with a held one.
        ended: its terminal word, None while it is open; `reason` that row's.
        superseded: why a resume took it back; None while it stands.
    """

    number: int
    lineage: int | None
    in_place: bool
    ended: str | None
    reason: str | None
    tokens: int | None
    superseded: Failed | None = None
    superseded_by: int | None = None

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "attempt": self.number,
            "lineage": self.lineage,
            "in_place": self.in_place,
            "ended": self.ended,
            "reason": self.reason,
            "tokens": self.tokens,
            "superseded": self.superseded.to_json() if self.superseded else None,
            "superseded_by": self.superseded_by,
        }


@dataclass(frozen=True)
class Explained:
    """A position with its attempts, oldest first."""

    place: Place
    rows: Sequence[CallRow]
    attempts: tuple[Attempt, ...]

    @property
    def name(self) -> str:
        """The position's name."""
        return place_name(self.place)


def explain(rows: Iterable[Row]) -> list[Explained]:
    """Every position that the rows tell of, by path and position."""
    calls: dict[Place, list[CallRow]] = {}
    for row in rows:
        if isinstance(row, CallRow):
            calls.setdefault((row.path, row.position), []).append(row)
    return [Explained(place, own, tuple(_attempts(own, place))) for place, own in sorted(calls.items())]


def _attempts(rows: Sequence[CallRow], place: Place) -> Iterable[Attempt]:
    numbers = sorted({row.attempt for row in rows})
    for number in numbers:
        own = [row for row in rows if row.attempt == number]
        began = next((row for row in own if begins_attempt(row) or row.event == "hold_cleared"), own[0])
        ends = [row for row in own if row.event in TERMINAL_WORDS and row.event != "superseded"]
        taken = next((row for row in own if row.event == "superseded"), None)
        because = Failed.read(taken.detail, place) if taken is not None and "condition" in taken.detail else None
        end = ends[-1] if ends else taken
        yield Attempt(
            number=number,
            lineage=began.detail.get("lineage"),
            in_place=not begins_attempt(began),
            ended=end.event if end is not None else None,
            reason=end.detail.get("reason") if end is not None else None,
            tokens=end.tokens if end is not None else None,
            superseded=because,
            superseded_by=taken.detail.get("lineage") if taken is not None else None,
        )

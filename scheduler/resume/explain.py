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
from shared.model.rows import CallRow, EventRow, Row


@dataclass(frozen=True)
class Attempt:
    """One attempt of a call.

    Shape:
        lineage: the process that opened it: 0 for the first, one more for each resume; None where a row does not say.
        in_place: whether it goes on with a held one.
        ended: its terminal word, None while it is open; `reason` that row's.
        process: that process in words: `start`, `resume 2`, `takeover 1`; of a fork's copied calls `run <id>`.
        superseded: why a later process took it back, `superseded_in`; None while it stands.
    """

    number: int
    lineage: int | None
    in_place: bool
    ended: str | None
    reason: str | None
    tokens: int | None
    superseded: Failed | None = None
    superseded_by: int | None = None
    process: str | None = None
    superseded_in: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "attempt": self.number,
            "lineage": self.lineage,
            "process": self.process,
            "in_place": self.in_place,
            "ended": self.ended,
            "reason": self.reason,
            "tokens": self.tokens,
            "superseded": self.superseded.to_json() if self.superseded else None,
            "superseded_by": self.superseded_by,
            "superseded_in": self.superseded_in,
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
    processes = _Processes()
    for row in rows:
        if isinstance(row, CallRow):
            calls.setdefault((row.path, row.position), []).append(row)
        else:
            processes.take(row)
    return [Explained(place, own, tuple(_attempts(own, place, processes))) for place, own in sorted(calls.items())]


class _Processes:
    """What the processes of a run are called: people count the resumes that they asked for."""

    def __init__(self) -> None:
        self._words: dict[int, str] = {}
        self._copied_from, self._last_copied = "", 0

    def take(self, row: EventRow) -> None:
        """A row of the flow."""
        if row.kind == "started":
            how = str(row.data.get("how"))
            before = sum(word.startswith(how) for word in self._words.values())
            self._words[int(row.data["lineage"])] = how if how == "start" else f"{how} {before + 1}"
        elif row.kind == "forked":
            self._copied_from, self._last_copied = f"run {row.data['run']}", row.seq + int(row.data["rows"])

    def of(self, row: CallRow) -> str | None:
        """The process that wrote a row with a lineage; the lineages of copied rows are another run's."""
        if row.seq <= self._last_copied:
            return self._copied_from
        return self._words.get(row.detail.get("lineage", -1))


def _attempts(rows: Sequence[CallRow], place: Place, processes: _Processes) -> Iterable[Attempt]:
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
            process=processes.of(began),
            superseded_in=processes.of(taken) if taken is not None else None,
        )

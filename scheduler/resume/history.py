"""A run's recorded rows, found by where in the script they stand.

A position is looked up at its own place only and leaves the history with it, so
that a run of ten thousand positions does not hold its past twice.
Source: journal document, "The resume walk".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from shared.model.events import REOPENING_WORDS, TERMINAL_WORDS
from shared.model.position import parent_of
from shared.model.rows import CallRow, EventRow, Row

Place = tuple[str, int]

NOTE_WORDS = frozenset({"phase", "log"})


class History:
    """What the rows of earlier processes say, by `(path, position)`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.last_seq = 0
        self.lineage = 0
        self.python: str | None = None
        self._calls: dict[Place, list[CallRow]] = defaultdict(list)
        self._joins: dict[Place, EventRow] = {}
        self._notes: dict[tuple[str, Place], int] = defaultdict(int)
        paths: set[str] = set()
        for row in rows:
            self.last_seq = max(self.last_seq, row.seq)
            if isinstance(row, CallRow):
                self._calls[row.path, row.position].append(row)
                paths.add(row.path)
            else:
                self._take_event(row)
        # Also a join that did not settle left a trace: the paths of its items.
        self._opened_joins = {(above[0], above[1]) for path in _with_parents(paths) if (above := parent_of(path))}
        self._opened_joins |= self._joins.keys()

    def _take_event(self, row: EventRow) -> None:
        if row.kind == "started":
            self.lineage += 1
            self.python = self.python or row.data.get("python")
        elif row.path is None or row.position is None:
            return
        elif row.kind == "join_settled":
            self._joins[row.path, row.position] = row
        elif row.kind in NOTE_WORDS:
            self._notes[row.kind, (row.path, row.position)] += 1

    def take_call(self, place: Place) -> Sequence[CallRow]:
        """The rows of the call at a place, oldest first; empty when it was never opened. They are given once."""
        return self._calls.pop(place, ())

    def take_join(self, place: Place) -> EventRow | None:
        """The `join_settled` row at a place; given once."""
        self._opened_joins.discard(place)
        return self._joins.pop(place, None)

    def take_note(self, kind: str, place: Place) -> bool:
        """Whether one more row of this kind (phase or log) was recorded at a place; each is counted off once."""
        left = self._notes.get((kind, place), 0)
        if left:
            self._notes[kind, place] = left - 1
        return left > 0

    def has_call(self, place: Place) -> bool:
        """Whether a call was recorded at a place and not yet taken."""
        return place in self._calls

    def has_join(self, place: Place) -> bool:
        """Whether a join was recorded at a place and not yet taken."""
        return place in self._opened_joins

    def open_calls(self) -> dict[str, list[CallRow]]:
        """Call id -> rows of every call without an end, taken or not: workers may still be at them."""
        return {rows[0].call_id: rows for rows in self._calls.values() if not is_ended(rows)}

    def places_left(self) -> list[Place]:
        """Where something was recorded that the script has not come to."""
        return sorted({*self._calls, *self._joins})


def _with_parents(paths: set[str]) -> Iterator[str]:
    seen: set[str] = set()
    for path in paths:
        while path not in seen:
            seen.add(path)
            yield path
            above = parent_of(path)
            if above is None:
                break
            path = above[0]


def is_ended(rows: Sequence[CallRow]) -> bool:
    """Whether the newest attempt of a call has ended: no intent and no start came after its terminal row."""
    for row in reversed(rows):
        if row.event in TERMINAL_WORDS:
            return True
        if row.event == "prepared" or row.event in REOPENING_WORDS:
            return False
    return False

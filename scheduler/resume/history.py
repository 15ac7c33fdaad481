"""A run's recorded rows, found by where in the script they stand.

A position is looked up at its own place only and leaves the history with it, so
that a run of ten thousand positions does not hold its past twice. What a suffix
supersedes leaves it at once, with everything recorded behind.
Source: journal document, "The resume walk" and "The suffix".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from scheduler.resume.attempts import is_ended
from scheduler.resume.decisions import Place
from shared.base.errors import StoreError
from shared.model.allocation import NODE_KINDS
from shared.model.call_state import is_unknown_end
from shared.model.events import ROW_KINDS, TERMINAL_WORDS
from shared.model.position import parent_of
from shared.model.rows import CallRow, EventRow, Row

NOTE_WORDS = frozenset({"phase", "log"})
# What ended so was taken back: nothing of it stands for the script to come to.
_GONE = frozenset({"superseded", "withdrawn"})


@dataclass(frozen=True)
class Recorded:
    """What stands at a place: the rows of its call, oldest first."""

    place: Place
    rows: Sequence[CallRow]

    @property
    def gone(self) -> bool:
        """Whether its newest attempt was taken back."""
        return is_gone(self.rows)


class History:
    """What the rows of earlier processes say, by `(path, position)`.

    Shape:
        lineage: how many processes have driven the run: the number of the one that begins now.
        resumes: how many of them were asked for.
        asked: whether one was asked for and the run has not ended since.
        threads: the threads that earlier processes' rows name, each with the number of the first that does.
        copied: those that another run's rows name, which this one began with.
        worked: the nodes of which a worktree was made.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.last_seq = 0
        self.lineage = 0
        self.resumes = 0
        self.asked = False
        self.python: str | None = None
        self.threads: dict[str, int] = {}
        self.copied: set[str] = set()
        self.worked: set[str] = set()
        self._calls: dict[str, dict[int, list[CallRow]]] = defaultdict(dict)
        self._joins: dict[str, dict[int, EventRow]] = defaultdict(dict)
        self._notes: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        # By a join's path and position: the paths of its items, each with the number of the newest row under it.
        self._items: dict[str, dict[int, dict[str, int]]] = defaultdict(dict)
        self._above: dict[str, list[tuple[dict[str, int], str]]] = {}
        for row in rows:
            if row.seq > self.last_seq:
                self.last_seq = row.seq
            if isinstance(row, CallRow):
                self._take_call_row(row)
            else:
                self._take_event(row)

    def _take_call_row(self, row: CallRow) -> None:
        _check_word(row.event, row.seq)
        path, position = row.path, row.position
        of_path = self._calls[path]
        if position in of_path:
            of_path[position].append(row)
        else:
            of_path[position] = [row]
        if row.thread_id is not None:
            self.threads.setdefault(row.thread_id, row.seq)
            if not self.lineage:
                # Only copied rows come before the first process of a run.
                self.copied.add(row.thread_id)
        if row.event == "placed" and row.node_id is not None and row.worktree_kind in NODE_KINDS:
            self.worked.add(row.node_id)
        # A call that was opened where a join had settled came later: the join was given up.
        if path in self._joins:
            self._joins[path].pop(position, None)
        # Also a join that did not settle left a trace: the paths of its items.
        for items, item in self._items_above(path):
            items[item] = row.seq

    def _take_event(self, row: EventRow) -> None:
        _check_word(row.kind, row.seq)
        if row.kind == "started":
            self.lineage += 1
            self.python = self.python or row.data.get("python")
            if row.data.get("how") == "resume":
                self.resumes += 1
                self.asked = True
        elif row.kind == "finished":
            self.asked = False
        elif row.path is None or row.position is None:
            return
        elif row.kind == "join_settled":
            self._joins[row.path][row.position] = row
        elif row.kind in NOTE_WORDS:
            notes = self._notes[row.path]
            notes[row.kind, row.position] = notes.get((row.kind, row.position), 0) + 1

    # -- what stands at a place ----------------------------------------------------------------------

    def take_call(self, place: Place) -> Sequence[CallRow]:
        """The rows of the call at a place, oldest first; empty when it was never opened. They are given once."""
        return self._calls[place[0]].pop(place[1], ()) if place[0] in self._calls else ()

    def peek(self, place: Place, limit: int) -> Iterator[Sequence[CallRow]]:
        """The calls that stand right behind a place on its path, in order; they stay."""
        calls = self._calls.get(place[0], {})
        for position in range(place[1] + 1, place[1] + 1 + limit):
            if position in calls:
                yield calls[position]

    def has_thread(self, thread_id: str, before: int | None = None) -> bool:
        """Whether a thread is an earlier process's; with `before`, whether a row before that number names it."""
        seq = self.threads.get(thread_id)
        return seq is not None and (before is None or seq < before)

    def take_join(self, place: Place, newest_seq: int = 0) -> EventRow | None:
        """The `join_settled` row at a place; given once, and only when it is newer than all that it rests on.

        Args:
            newest_seq: the number of the newest row of the positions before it on its path.
        """
        row = self._joins[place[0]].pop(place[1], None) if place[0] in self._joins else None
        newest = max([newest_seq, *self._items.get(place[0], {}).get(place[1], {}).values()])
        return row if row is not None and row.seq > newest else None

    def take_note(self, kind: str, place: Place) -> bool:
        """Whether one more row of this kind (phase or log) was recorded at a place; each is counted off once."""
        notes = self._notes.get(place[0], {})
        left = notes.get((kind, place[1]), 0)
        if left:
            notes[kind, place[1]] = left - 1
        return left > 0

    def has_call(self, place: Place) -> bool:
        """Whether a call stands at a place and was not yet taken."""
        rows = self._calls.get(place[0], {}).get(place[1])
        return rows is not None and not is_gone(rows)

    def has_join(self, place: Place) -> bool:
        """Whether a join stands at a place and was not yet taken: it settled, or calls of its items stand."""
        items = self._items.get(place[0], {}).get(place[1])
        if not items:
            return place[1] in self._joins.get(place[0], {})
        return any(self._stands(path) for path in items)

    def _stands(self, path: str) -> bool:
        """Whether a call stands on a path or on one opened from it."""
        if any(not is_gone(rows) for rows in self._calls.get(path, {}).values()):
            return True
        return any(self._stands(item) for items in self._items.get(path, {}).values() for item in items)

    # -- what stands in the whole run ----------------------------------------------------------------

    def open_calls(self) -> dict[str, list[CallRow]]:
        """Call id -> rows of every call without an end, not yet taken: workers may still be at them."""
        return {rows[0].call_id: rows for _, rows in self._all() if not is_ended(rows)}

    def unknown_calls(self) -> list[CallRow]:
        """The newest rows of the calls whose outcome is not known, not yet taken."""
        found = []
        for _, rows in self._all():
            end = next((row for row in reversed(rows) if row.event in TERMINAL_WORDS), None)
            if end is not None and is_unknown_end(end) and is_ended(rows):
                found.append(end)
        return found

    def places_left(self) -> list[Place]:
        """Where a call stands that the script has not come to."""
        return sorted(place for place, rows in self._all() if not is_gone(rows))

    def take_left(self) -> list[Recorded]:
        """The calls that the script has not come to; given once."""
        left = sorted((Recorded(place, rows) for place, rows in self._all()), key=lambda one: one.place)
        self._calls.clear()
        self._joins.clear()
        return left

    def take_behind(self, path: str, position: int) -> list[Recorded]:
        """What stands on a path behind a position, and on every path opened there; given once.

        Joins and notes go too: the script settles and says them again.
        """
        found: list[Recorded] = []
        waiting = [(path, position)]
        while waiting:
            name, after = waiting.pop()
            calls = self._calls.get(name, {})
            for number in sorted(number for number in calls if number > after):
                found.append(Recorded((name, number), calls.pop(number)))
            for number in [number for number in self._joins.get(name, {}) if number > after]:
                del self._joins[name][number]
            for key in [key for key in self._notes.get(name, {}) if key[1] >= after]:
                del self._notes[name][key]
            joins = self._items.get(name, {})
            for number in [number for number in joins if number > after]:
                waiting += [(item, 0) for item in joins.pop(number)]
        return found

    def _items_above(self, path: str) -> list[tuple[dict[str, int], str]]:
        """For each join above a path: its items, and which of them leads there."""
        known = self._above.get(path)
        if known is None:
            known, item, above = [], path, parent_of(path)
            while above is not None:
                known.append((self._items[above[0]].setdefault(above[1], {}), item))
                item = above[0]
                above = parent_of(item)
            self._above[path] = known
        return known

    def _all(self) -> Iterator[tuple[Place, list[CallRow]]]:
        for path, calls in self._calls.items():
            for position, rows in calls.items():
                yield (path, position), rows


def is_gone(rows: Sequence[CallRow]) -> bool:
    """Whether the newest attempt of a call was superseded or withdrawn."""
    end = next((row for row in reversed(rows) if row.event in TERMINAL_WORDS), None)
    return end is not None and end.event in _GONE and is_ended(rows)


def _check_word(word: str, seq: int) -> None:
    if word not in ROW_KINDS:
        raise StoreError(f"row {seq} has the kind {word!r}, which this program does not know; a newer one wrote it")

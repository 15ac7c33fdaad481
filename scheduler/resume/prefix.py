"""The prefix of a run that another run begins with: everything recorded that does not stand behind a cut. Pure.

A cut at a position takes what a suffix that begins there would take: the position and
all behind it on its path, every path opened from there on, the joins above it and all
behind those. Paths beside it stay. A position whose call has no usable end, or whose
effect is not proven, is one more cut.
Source: design of the farm, "Room to leave"; journal document, "The suffix".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scheduler.resume.attempts import is_ended
from scheduler.resume.decisions import Place
from scheduler.resume.history import NOTE_WORDS
from shared.model.events import TERMINAL_WORDS
from shared.model.position import parent_of
from shared.model.rows import CallRow, Row

# Ends that a script gets again as they are; a held or unknown one is nobody's prefix.
_USABLE = frozenset({"completed", "null_model", "refused"})
# Rows of the flow that belong to a place; the others tell of processes and hosts.
_KEPT_EVENTS = NOTE_WORDS | {"join_settled"}


@dataclass(frozen=True)
class Cut:
    """Where a prefix ends, and why."""

    place: Place
    why: str


@dataclass(frozen=True)
class Prefix:
    """What the other run begins with. Shape: `rows` by seq; `cuts` the asked one first, then those that were found."""

    rows: tuple[Row, ...]
    cuts: tuple[Cut, ...]

    def calls(self) -> list[str]:
        """The ids of its calls, in order."""
        return list(dict.fromkeys(row.call_id for row in self.rows if isinstance(row, CallRow)))


def plan_prefix(rows: Sequence[Row], at: Place, why_not: Callable[[Sequence[CallRow]], str | None]) -> Prefix:
    """The prefix of a run up to a position.

    Args:
        why_not: why the effect of an ended call does not count as proven; None when it is.
    """
    calls: dict[Place, list[CallRow]] = {}
    for row in rows:
        if isinstance(row, CallRow):
            calls.setdefault((row.path, row.position), []).append(row)
    cuts = _Cuts(Cut(at, "the position that was asked for"))
    for place in sorted(calls, key=lambda place: calls[place][0].seq):
        if not cuts.take(place) and (why := _unusable(calls[place]) or why_not(calls[place])) is not None:
            cuts.add(Cut(place, why))
    kept = [row for row in rows if _stays(row, cuts)]
    return Prefix(tuple(kept), tuple(cuts.all))


def _unusable(rows: Sequence[CallRow]) -> str | None:
    if not is_ended(rows):
        return "its call has not ended"
    end = next(row for row in reversed(rows) if row.event in TERMINAL_WORDS)
    return None if end.event in _USABLE else f"its call ended {end.event}"


def _stays(row: Row, cuts: _Cuts) -> bool:
    if isinstance(row, CallRow):
        return not cuts.take((row.path, row.position))
    if row.kind not in _KEPT_EVENTS or row.path is None or row.position is None:
        return False
    return not cuts.take((row.path, row.position), closing=True)


class _Cuts:
    """Cuts, and what they take. Of all cuts of a path, and of all joins above any, the first one alone decides."""

    def __init__(self, first: Cut) -> None:
        self.all: list[Cut] = []
        self._first: dict[str, int] = {}
        self._joins: dict[str, int] = {}
        self.add(first)

    def add(self, cut: Cut) -> None:
        """One more cut."""
        self.all.append(cut)
        (path, position), *above = _chain(cut.place)
        self._first[path] = min(position, self._first.get(path, position))
        for name, join in above:
            self._joins[name] = min(join, self._joins.get(name, join))

    def take(self, place: Place, *, closing: bool = False) -> bool:
        """Whether a place is taken. `closing`: what stands there was written when the place's join was over."""
        for step, (name, number) in enumerate(_chain(place)):
            if number >= self._first.get(name, number + 1):
                return True
            if number + (closing and step == 0) > self._joins.get(name, number + 1):
                return True
        return False


def _chain(place: Place) -> Iterator[Place]:
    """The place, and the place of each join that leads to it, upwards."""
    yield place
    above = parent_of(place[0])
    while above is not None:
        yield above[0], above[1]
        above = parent_of(above[0])

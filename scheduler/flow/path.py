"""Where in the script a coroutine is: its path, its next position, and what is open there.

The path travels with the task, so that `flow` is one object for the whole script.
On one path one position is open at a time: that is what makes "the third position
of this path" mean the same thing in every process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar

from scheduler.flow.digest import NO_JOINS, chain_joins
from scheduler.resume.decisions import Failed, Place
from scheduler.resume.suffix import behind_join, behind_position, below
from shared.base.errors import FlowError

__all__ = ["Path", "Place", "current_path", "enter_path"]


class Path:
    """A path of a run while its script is running.

    Shape:
        position: the number of the last position opened.
        joins: the chain of the joins that settled before the next one.
        newest_seq: the number of the newest recorded row of the positions that replayed so far.
        broken: why no recorded position of the path replays any more; None while they do.
        suffix: set when the path belongs to the suffix of a resume: what opens there forks and restores.
        taken_at: the number of a row with which an earlier process began that suffix: what was forked and restored
            behind it is done. None for a suffix of this process.
    """

    __slots__ = ("_open", "broken", "joins", "name", "newest_seq", "parent", "position", "suffix", "taken_at")

    def __init__(self, name: str, joins: str = NO_JOINS, parent: Path | None = None) -> None:
        self.name = name
        self.position = 0
        self.joins = joins
        self.parent = parent
        self.newest_seq: int = parent.newest_seq if parent else 0
        self.broken: Failed | None = _below(parent.broken) if parent else None
        self.suffix: Failed | None = _below(parent.suffix) if parent else None
        self.taken_at: int | None = parent.taken_at if parent else None
        self._open: str | None = None

    @property
    def place(self) -> Place:
        """The position opened last."""
        return self.name, self.position

    def above(self) -> Iterator[Path]:
        """The paths above this one, the nearest first; each stands at the join that leads here."""
        path = self.parent
        while path is not None:
            yield path
            path = path.parent

    def begin_suffix(self, why: Failed, taken_at: int | None) -> None:
        """What opens on the path from here on belongs to a suffix; the first word stands."""
        if self.suffix is None:
            self.suffix, self.taken_at = why, taken_at

    def ran_live(self) -> None:
        """The open position does not replay: nothing recorded behind it does, on this path and behind each join above.

        A position never opened before breaks nothing by itself: as a rule nothing is recorded behind it.
        """
        if self.broken is None:
            self.broken = behind_position(self.place)
        for path in self.above():
            if path.broken is None:
                path.broken = behind_join(path.place, self.place)

    def see(self, seq: int) -> None:
        """A recorded row that stands was read, here and so under every join above."""
        path: Path | None = self
        while path is not None:
            if path.newest_seq < seq:
                path.newest_seq = seq
            path = path.parent

    def enter(self, what: str) -> Place:
        """Open the next position.

        Raises:
            FlowError: one is open already.
        """
        if self._open is not None:
            raise FlowError(
                f"{what} while {self._open} of the same path is not done: two positions are open on path {self.name} "
                "at once; use flow.parallel({key: coroutine, ...}) to run them side by side",
                path=self.name,
            )
        self._open = what
        self.position += 1
        return self.place

    def leave(self, settled: str | None = None) -> None:
        """The open position is done; `settled` is its digest when it was a join."""
        self._open = None
        if settled is not None:
            self.joins = chain_joins(self.joins, settled)


def _below(failed: Failed | None) -> Failed | None:
    """What a path's state is for the paths opened from it (b)."""
    return None if failed is None else below(failed)


_PATH: ContextVar[Path | None] = ContextVar("crw_flow_path", default=None)


def current_path() -> Path:
    """The path of the running coroutine.

    Raises:
        FlowError: it is no coroutine of a script.
    """
    path = _PATH.get()
    if path is None:
        raise FlowError("flow is used outside the script's own coroutines; call it from main or from what main awaits")
    return path


def enter_path(path: Path) -> None:
    """From here on the running task is on this path."""
    _PATH.set(path)

"""Where in the script a coroutine is: its path, its next position, and what is open there.

The path travels with the task, so that `flow` is one object for the whole script.
On one path one position is open at a time: that is what makes "the third position
of this path" mean the same thing in every process.
"""

from __future__ import annotations

from contextvars import ContextVar

from scheduler.flow.digest import NO_JOINS, chain_joins
from shared.base.errors import FlowError

Place = tuple[str, int]


class Path:
    """A path of a run while its script is running.

    Shape: `position` the number of the last position opened; `joins` the chain of
    the joins that settled before the next one.
    """

    __slots__ = ("_open", "joins", "name", "position")

    def __init__(self, name: str, joins: str = NO_JOINS) -> None:
        self.name = name
        self.position = 0
        self.joins = joins
        self._open: str | None = None

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
        return self.name, self.position

    def leave(self, settled: str | None = None) -> None:
        """The open position is done; `settled` is its digest when it was a join."""
        self._open = None
        if settled is not None:
            self.joins = chain_joins(self.joins, settled)


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

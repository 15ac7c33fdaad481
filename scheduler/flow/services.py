"""What the engine needs from its process, as narrow as it can be said.

The journal is written through one writer and read in threads; the broker is two
functions that return at once; changes are ears that the process opens per run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shared.journal.append import JournalWriter
from shared.journal.database import Database
from shared.journal.outbox import Publication


class Watch(Protocol):
    """One run's ear: hints that something happened, and the run's stop flag as last seen.

    Shape: `seen_seq` is the number of the newest row the run has read; the run sets
    it, the process compares it when it polls.
    """

    seen_seq: int
    stop: str | None

    async def wait(self) -> None:
        """Return when something may have happened since the last return."""

    def notify(self) -> None:
        """Something may have happened; called on the loop."""


class Changes(Protocol):
    """The ears of all runs of a process."""

    def open(self, run_id: str) -> Any:
        """Begin to listen for a run: a `Watch`."""

    def close(self, watch: Any) -> None:
        """The run is no longer driven here."""


@dataclass(frozen=True)
class RunServices:
    """What drives a run.

    Shape:
        publish: hands calls to whoever sends them; returns at once, from any thread.
        tell: says that something happened in a run; returns at once, from any thread.
    """

    database: Database
    writer: JournalWriter
    publish: Callable[[Sequence[Publication]], None]
    tell: Callable[[str], None]
    changes: Changes

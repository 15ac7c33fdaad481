"""What the engine needs from its process, as narrow as it can be said.

The journal is written through one writer and read in threads; the broker is two
functions that return at once; changes are ears that the process opens per run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shared.journal.append import JournalWriter
from shared.journal.database import Database
from shared.journal.outbox import Publication
from shared.model.proof import NothingToProve, Prover
from shared.model.rows import NewEventRow, Row
from shared.model.silence import ESCALATE_SECONDS


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


# `(kind, what it asks)` -> the facts from outside that the position rests on; None for none.
Inputs = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]


class Proofs(Protocol):
    """Makes the prover of a run that begins to be driven."""

    def __call__(
        self, run_id: str, epoch: int, rows: Sequence[Row], note: Callable[[NewEventRow], None], /
    ) -> Prover: ...


def nothing_to_prove(run_id: str, epoch: int, rows: Sequence[Row], note: Callable[[NewEventRow], None], /) -> Prover:
    """For a farm without hosts that are asked: effects are as recorded."""
    return NothingToProve()


@dataclass(frozen=True)
class RunServices:
    """What drives a run.

    Shape:
        publish: hands calls to whoever sends them; returns at once, from any thread.
        tell: says that something happened in a run; returns at once, from any thread.
        proofs: makes who is asked whether recorded effects are still there; `rows` are the run's
            when it was loaded, `note` writes a row of the flow.
        ask_ahead: told `(run, epoch)` in a thread before the rows are loaded, so that hosts look meanwhile.
        inputs: facts that only an act outside the run changes, recorded with what rests on them.
        escalate_seconds: for how long a silent host is waited for before a row asks people to look.
        calls_at_once: how many calls of one run may be on the broker; None for any number.
        on_held: told when calls were opened that are held back from it; returns at once, from any thread.
    """

    database: Database
    writer: JournalWriter
    publish: Callable[[Sequence[Publication]], None]
    tell: Callable[[str], None]
    changes: Changes
    proofs: Proofs = nothing_to_prove
    inputs: Inputs | None = None
    calls_at_once: int | None = None
    escalate_seconds: float = ESCALATE_SECONDS
    on_held: Callable[[], None] = lambda: None
    ask_ahead: Callable[[str, int], None] | None = None

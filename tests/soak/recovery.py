"""How long the farm takes from a fault until what it struck is whole again.

A fault of a worker or its App Server is over when every call that it had in hand has
ended; of a scheduler, when the run opens calls again; of the services, when a call ends.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.base.errors import StoreError
from shared.journal.database import Database

_HELD = """
    select call_id from call_claims c join farm_workers w using (worker_id)
    where w.host = %(host)s and c.state = 'claimed'"""
_OPEN = "select count(*) from call_claims where call_id = any(%(calls)s) and state not in ('ended', 'withdrawn')"
_NEXT = "select 1 from flow_calls where run_id = %(run)s and seq > %(seq)s and event = %(event)s limit 1"


@dataclass(frozen=True)
class Struck:
    """What a fault struck: `calls` in hand, or else the run's next row of the kind `event` behind `seq`."""

    kind: str
    at: float
    calls: tuple[str, ...] = ()
    event: str = "completed"
    seq: int = 0


@dataclass
class Recoveries:
    """All faults so far and how long each took. Shape: `seconds` of those that are over, by kind."""

    database: Database
    run_id: str
    open: list[Struck] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def aim(self, kind: str, *, host: str | None = None, event: str = "completed") -> Struck:
        """What a fault is about to strike. Raises StoreError."""
        calls: tuple[str, ...] = ()
        if host is not None:
            calls = tuple(row[0] for row in self.database.fetch(_HELD, {"host": host}))
        ((seq,),) = self.database.fetch("select next_seq - 1 from flow_runs where run_id = %(r)s", {"r": self.run_id})
        return Struck(kind, time.monotonic(), calls, event, seq)

    def look(self, *, ended: bool = False) -> None:
        """Note which of them are over; all are, when the run has `ended`."""
        for struck in list(self.open):
            try:
                over = ended or self._is_over(struck)
            except StoreError:
                return
            if over:
                self.open.remove(struck)
                self.seconds.setdefault(struck.kind, []).append(time.monotonic() - struck.at)

    def _is_over(self, struck: Struck) -> bool:
        if struck.calls:
            return self.database.fetch(_OPEN, {"calls": list(struck.calls)}) == [(0,)]
        return bool(self.database.fetch(_NEXT, {"run": self.run_id, "seq": struck.seq, "event": struck.event}))


def sum_up(seconds: Sequence[float]) -> dict[str, float | None]:
    """Median and worst of them, in seconds."""
    if not seconds:
        return {"median": None, "worst": None}
    return {"median": round(statistics.median(seconds), 2), "worst": round(max(seconds), 2)}

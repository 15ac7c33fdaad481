"""When a lease that ran out becomes a death.

The database's clock says which leases have run out; that is a suspicion. It is a
death when the same process showed the same beat on two looks at least one lease
apart on our own clock, with no failed look in between: after an outage of the
database everybody's lease has run out, and everybody has one whole lease to beat.
Source: rules of the protocol, 11.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.journal.hosts import Suspect


class Suspicion:
    """What one sweeper has seen so far."""

    def __init__(self) -> None:
        self._first_seen: dict[tuple[str, int], float] = {}

    def decide_dead(self, suspects: Iterable[Suspect], now: float) -> list[Suspect]:
        """The suspects that are dead, and remember the others.

        Args:
            suspects: all whose lease has run out now.
            now: our own monotonic clock.
        """
        seen, dead = {}, []
        for suspect in suspects:
            key = (suspect.worker_id, suspect.beat)
            seen[key] = first = self._first_seen.get(key, now)
            if now - first >= suspect.lease_seconds:
                dead.append(suspect)
        # Who is not on the list has beaten since: the next time starts from the beginning.
        self._first_seen = seen
        return dead

    def forget(self) -> None:
        """A look failed: nothing counts as seen."""
        self._first_seen.clear()

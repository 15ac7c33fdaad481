"""Free what dead workers hold.

Unsent calls are open for everybody again; sent ones are stranded until their host's
next incarnation. More than a third of all workers silent at once looks like a fault
of ours: it is said, and they are buried one a pass.
Source: rules of the protocol, 11, 21, 29 and 30.
"""

from __future__ import annotations

import time

from scheduler.sweeps.suspicion import Suspicion
from shared.base.log import get_logger
from shared.journal import freeing, hosts, roster
from shared.journal.database import Database
from shared.journal.hosts import Suspect

log = get_logger()


class RescueCalls:
    """The sweep over the workers."""

    name = "rescue"

    def __init__(self, database: Database, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._suspicion = Suspicion()

    def pass_once(self) -> int:
        """Bury the dead and free their calls; also those that an earlier pass left.

        Returns:
            How many calls were freed.
        """
        dead = self._suspicion.decide_dead(hosts.suspects(self._database), time.monotonic())
        freed = 0
        for suspect in self._spare_many(dead):
            calls = hosts.bury(self._database, suspect.worker_id, suspect.beat)
            log.warning("worker_dead", worker=suspect.worker_id, freed=len(calls))
            freed += len(calls)
        freed += len(hosts.free_dead(self._database))
        # Its worker lives and beats, but whoever works on the call does not come back.
        overdue = freeing.free_overdue(self._database, self._lease_seconds)
        for call in overdue:
            log.warning("call_overdue", run=call.run_id, call=call.call_id)
        return freed + len(overdue)

    def forget(self) -> None:
        """The database was away: everybody has a whole lease again."""
        self._suspicion.forget()

    def _spare_many(self, dead: list[Suspect]) -> list[Suspect]:
        if len(dead) < 2:
            return dead
        up = sum(host.worker_state in ("up", "draining") for host in roster.list_hosts(self._database))
        if len(dead) * 3 <= up:
            return dead
        log.error("many_workers_silent", silent=len(dead))
        return dead[:1]

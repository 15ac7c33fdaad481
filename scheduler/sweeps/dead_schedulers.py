"""Find schedulers that are gone: their runs are then taken by whoever takes runs next."""

from __future__ import annotations

import time

from scheduler.sweeps.suspicion import Suspicion
from shared.base.log import get_logger
from shared.journal import hosts
from shared.journal.database import Database

log = get_logger()


class BurySchedulers:
    """The sweep over the schedulers."""

    name = "dead_schedulers"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._suspicion = Suspicion()

    def pass_once(self) -> int:
        """Bury the dead.

        Returns:
            How many were buried.
        """
        suspects = hosts.suspects_schedulers(self._database)
        buried = 0
        for suspect in self._suspicion.decide_dead(suspects, time.monotonic()):
            if hosts.bury_scheduler(self._database, suspect.worker_id, suspect.beat):
                log.warning("scheduler_dead", scheduler=suspect.worker_id)
                buried += 1
        return buried

    def forget(self) -> None:
        """The database was away: everybody has a whole lease again."""
        self._suspicion.forget()

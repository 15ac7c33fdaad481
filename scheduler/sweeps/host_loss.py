"""Give up hosts that are silent for too long while a run waits for them.

Their calls are taken from them; what becomes of the sent ones each run decides itself.
What is bound to a lost host later is taken at the next pass, however it came there.
Source: rules of the protocol, 11 and 27.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from scheduler.sweeps.suspicion import Suspicion
from shared.base.log import get_logger
from shared.journal import loss
from shared.journal.database import Database

log = get_logger()


class LoseHosts:
    """The sweep over silent hosts.

    Args:
        after_seconds: how long a host may be silent, by the database's clock.
        tell: wakes whoever drives or follows a run.
    """

    name = "host_loss"

    def __init__(self, database: Database, after_seconds: float, tell: Callable[[str], None]) -> None:
        self._database = database
        self._after_seconds = after_seconds
        self._tell = tell
        self._suspicion = Suspicion()

    def pass_once(self) -> int:
        """Give up what has to be.

        Returns:
            How many hosts something was taken from.
        """
        missed = loss.missed_hosts(self._database, self._after_seconds)
        taken = []
        for suspect in self._suspicion.decide_dead(missed, time.monotonic()):
            host = suspect.worker_id
            found = loss.lose_host(self._database, host)
            log.error("host_lost", host=host, lost=len(found.lost) if found else 0)
            taken += [found] if found else []
        taken += loss.lose_rest(self._database)
        for run in sorted({run for found in taken for run in found.runs}):
            self._tell(run)
        return len(taken)

    def forget(self) -> None:
        """The database was away: everybody has a whole lease again."""
        self._suspicion.forget()

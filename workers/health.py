"""Whether this worker still does what its heart says: it looks for calls, and its lease is renewed.

Both can stop while everything else runs on: a thread that hangs, a connection that
never answers. The worker then says so and ends for its supervisor, which starts a fresh
one. A database that is away is no fault of the worker: it waits for it for ever.
Source: rules of the protocol, 29; design of the farm, "Hosts, placement and loss".
"""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.base.log import get_logger

UNHEALTHY_STATUS = 4
# Leases without a look for calls, or without a confirmed beat, that are taken for a fault.
_LEASES = 3
_LOOK_SECONDS = 1.0
log = get_logger()


class Health:
    """Watches one worker.

    Args:
        look_age, lease_age: seconds since it last looked for calls; since its confirmed lease ran out.
        database_answers: whether the database can be used now.
        end: ends the process in order with an exit status.
    """

    def __init__(
        self,
        lease_seconds: float,
        *,
        look_age: Callable[[], float],
        lease_age: Callable[[], float],
        database_answers: Callable[[], bool],
        end: Callable[[int], None],
    ) -> None:
        self._lease_seconds = lease_seconds
        self._look_age = look_age
        self._lease_age = lease_age
        self._database_answers = database_answers
        self._end = end
        self._answers_since: float | None = None

    def loop(self, wait: Callable[[float], bool]) -> None:
        """Look until `wait` says that the worker ends, or a fault was found."""
        while not wait(_LOOK_SECONDS):
            fault = self.find_fault(time.monotonic())
            if fault is not None:
                log.error("unhealthy", why=fault)
                self._end(UNHEALTHY_STATUS)
                return

    def find_fault(self, now: float) -> str | None:
        """What is wrong, once it has been so for long enough while the database answered."""
        limit = _LEASES * self._lease_seconds
        faults = {
            "this worker does not look for calls any more": self._look_age(),
            "this worker's lease is not renewed": self._lease_age(),
        }
        found = next((f"{words} ({age:.0f} s)" for words, age in faults.items() if age > limit), None)
        if found is None or not self._database_answers():
            self._answers_since = None
            return None
        if self._answers_since is None:
            self._answers_since = now
        # A database that has just come back: everybody has one lease to show a sign of life.
        return found if now - self._answers_since >= self._lease_seconds else None

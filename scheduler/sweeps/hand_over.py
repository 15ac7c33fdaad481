"""Hand calls over to the broker that were held back, run by run in turns.

Of one run only so many calls wait on the broker at once: a run of ten thousand lanes
would bury another run's three calls in the queue that both share. What is beyond that
is opened all the same, with its row in the outbox marked as held back, and follows as
the others are claimed. While calls are held back the passes come as often as there is
something to hand over; else the floor is a look now and then, for runs that another
scheduler left.
Source: rules of the protocol, 36.
"""

from __future__ import annotations

import threading

from shared.base.errors import CrwError
from shared.base.log import get_logger
from shared.broker.publish import Publisher
from shared.journal import outbox
from shared.journal.database import Database

_SHORTEST_SECONDS = 0.02
_LONGEST_SECONDS = 0.5
_BATCH = 500
_JOIN_SECONDS = 2.0
log = get_logger()


class HandOver:
    """The loop that publishes held back calls; `start` it, `told` it when calls were held back, `stop` it."""

    def __init__(self, database: Database, publisher: Publisher, at_once: int, floor_seconds: float) -> None:
        """Prepare.

        Args:
            at_once: how many calls of one run may wait on the broker.
            floor_seconds: pause between two looks while nobody told of calls that were held back.
        """
        self._database = database
        self._publisher = publisher
        self._at_once = at_once
        self._floor_seconds = floor_seconds
        self._due = threading.Event()
        self._stopped = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._loop, name="hand-over", daemon=True)

    def start(self) -> None:
        """Begin with a look at once."""
        self._thread.start()

    def told(self) -> None:
        """Calls were held back; from any thread."""
        self._due.set()

    def stop(self) -> None:
        """End after the pass that runs; returns when it has, or after a moment. Blocks."""
        self._stopped.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def pass_once(self) -> int:
        """Publish as many held back calls of each run as its share has room for, one of each run after the other.

        Raises:
            BrokerUnavailable: the broker is away; the rows come due again.
            StoreError: the database is.
        """
        ready = outbox.take_held(self._database, self._at_once, _BATCH)
        self._publisher.send(ready)
        return len(ready)

    def _loop(self) -> None:
        pause = _SHORTEST_SECONDS
        while not self._stopped.is_set():
            self._due.clear()
            handed, left = self._pass()
            # Many at a time means that workers take them faster than we look.
            pause = max(_SHORTEST_SECONDS, pause / 2) if handed > self._at_once / 4 else pause * 2
            pause = min(pause, _LONGEST_SECONDS)
            if left:
                self._stopped.wait(pause)
            else:
                self._due.wait(self._floor_seconds)
                pause = _SHORTEST_SECONDS

    def _pass(self) -> tuple[int, bool]:
        """How many calls were handed over, and whether any are held back still."""
        try:
            handed, left = self.pass_once(), outbox.any_held(self._database)
        except CrwError as error:
            if not self._failing:
                log.warning("not_handed_over", why=str(error))
            self._failing = True
            return 0, True
        except Exception:
            log.exception("hand_over_broke")
            return 0, False
        if self._failing:
            log.info("handing_over_again")
        self._failing = False
        return handed, left

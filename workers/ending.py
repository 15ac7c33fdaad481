"""How a worker process ends: in order, or at once because it was declared dead.

In order: nothing new is claimed, what has sent nothing goes back, what has sent
something gets `drain_seconds` and is then told to interrupt. A call that this cuts short
gets no terminal row: it is stranded for this host's next incarnation, which proves the
end and goes on in place, so that a restart changes no outcome.
Source: rules of the protocol, 4 and 34.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from shared.base.errors import StoreError
from shared.base.log import get_logger
from workers.worker import Worker

_DEAD_STATUS = 3
_INTERRUPT_GRACE_SECONDS = 8.0
_LOOK_SECONDS = 0.05
log = get_logger()


class Ending:
    """The end of one worker process."""

    def __init__(self, worker: Worker, on_stopped: Callable[[], None] = lambda: None) -> None:
        """Prepare.

        Args:
            on_stopped: called when the App Server has ended in order; takes some seconds at most.
        """
        self._worker = worker
        self._on_stopped = on_stopped
        self._asked = threading.Event()
        self._status = 0

    @property
    def is_asked(self) -> bool:
        """Whether the process is to end."""
        return self._asked.is_set()

    def ask(self, status: int = 0) -> None:
        """Begin to end in order, with this exit status. Safe in a signal handler."""
        self._status = self._status or status
        self._asked.set()

    def loop(self) -> None:
        """Wait until asked, then end the process; never returns."""
        self._asked.wait()
        worker = self._worker
        log.info("stopping", calls=len(worker.hands.all()))
        worker.stopping.set()
        self._wait_for_hands(worker.settings.drain_seconds, tell_unsent=True)
        worker.hands.tell_all("worker_stopped")
        # Turns are being interrupted now; an end that is seen spares the successor a look.
        self._wait_for_hands(_INTERRUPT_GRACE_SECONDS)
        worker.appserver.stop()
        self._on_stopped()
        worker.writer.flush()
        try:
            worker.incarnation.stop(worker.database)
        except (StoreError, SQLAlchemyError) as error:
            log.warning("stop_not_recorded", why=str(error))
        log.info("stopped", left=len(worker.hands.all()))
        # Celery waits for its threads without limit; those that are left wait for turns nobody will read.
        os._exit(self._status)

    def die(self) -> None:
        """End at once: this incarnation was declared dead, and nothing of it may act any more."""
        worker = self._worker
        worker.stopping.set()
        for hand in worker.hands.all():
            hand.lose()
        worker.appserver.stop()
        os._exit(_DEAD_STATUS)

    def _wait_for_hands(self, seconds: float, *, tell_unsent: bool = False) -> None:
        end = time.monotonic() + seconds
        while (hands := self._worker.hands.all()) and time.monotonic() < end:
            for hand in hands if tell_unsent else ():
                if hand.claim is not None and not hand.claim.sent:
                    hand.tell("worker_stopped")
            time.sleep(_LOOK_SECONDS)

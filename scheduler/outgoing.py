"""Send calls from a thread of its own, so that a slow broker never holds up the loop.

What comes while the thread is sending goes out together. A broker that is away
loses the messages of that moment: the outbox sends them again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from shared.base.errors import BrokerUnavailable
from shared.base.log import get_logger
from shared.broker.publish import Publisher
from shared.journal.outbox import Publication

_AT_ONCE = 200
log = get_logger()


class Outgoing:
    """The calls that are about to be sent."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._waiting: list[Publication] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="outgoing", daemon=True)
        self._thread.start()

    def publish(self, publications: Sequence[Publication]) -> None:
        """Hand over; returns at once, from any thread."""
        with self._changed:
            self._waiting.extend(publications)
            self._changed.notify()

    def close(self) -> None:
        """Send what waits and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(10)

    def _loop(self) -> None:
        away = False
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                batch, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            if not batch:
                return
            try:
                self._publisher.send(batch)
            except BrokerUnavailable as error:
                if not away:
                    log.warning("not_published", why=str(error), instead="outbox")
                away = True
                continue
            if away:
                log.info("publishing_again")
            away = False

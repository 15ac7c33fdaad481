"""Which queues this worker eats from: its host's first, then those of its labels, then the farm's.

A worker that takes no new calls (draining, nearly full disk) stops eating from the
farm's queues: it would only take messages away from hosts that can use them.
Source: rules of the protocol, 25 and 43.
"""

from __future__ import annotations

import threading
from typing import Any

from celery import Celery, bootsteps

from shared.base.log import get_logger
from shared.broker.names import farm_queues, host_queue
from workers.worker import Worker

_LOOK_SECONDS = 1.0
log = get_logger()


class Queues:
    """The queues of one worker and whether the farm's are among those consumed."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._farm = farm_queues(tuple(worker.incarnation.identity.labels))
        self._consumer: Any = None
        self._eats_farm = True

    def names(self) -> list[str]:
        """All queues, in the order in which they are served."""
        return [host_queue(self._worker.host), *self._farm]

    def attach(self, app: Celery) -> None:
        """Get hold of the consumer whenever Celery makes one."""
        queues = self

        class HoldConsumer(bootsteps.StartStopStep):  # type: ignore[misc]
            requires = ("celery.worker.consumer:Tasks",)

            def start(self, parent: Any) -> None:
                queues._consumer = parent

        app.steps["consumer"].add(HoldConsumer)

    def watch_loop(self) -> None:
        """Leave the farm's queues, and come back to them, as the host's state says."""
        while not self._worker.stopping.wait(_LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """One look: change what is consumed where it differs from what should be."""
        consumer, wanted = self._consumer, self._worker.incarnation.takes_new()
        if consumer is None or wanted == self._eats_farm:
            return
        self._eats_farm = wanted
        log.warning("farm_queues", consumed=wanted, low_disk=self._worker.incarnation.low_disk)
        for name in self._farm:
            # In the consumer's own thread: its channel belongs to no other.
            consumer.call_soon(consumer.add_task_queue if wanted else consumer.cancel_task_queue, name)


def start_thread(target: Any, name: str) -> threading.Thread:
    """A daemon thread for one of the worker's loops."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread

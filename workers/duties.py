"""What a worker does beside its calls: ask for calls that no message brought, hear of stops, watch its queues."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from shared.base.errors import StoreError
from shared.base.log import get_logger
from shared.journal import claims, runs, stopping
from workers.tasks import Caller
from workers.worker import Worker

_LOOK_PAUSE_SECONDS = 0.25
log = get_logger()


class Slots:
    """Runs calls in the worker's slots, those that a message brought and those that were asked for."""

    def __init__(self, worker: Worker, caller: Caller) -> None:
        self._worker = worker
        self._caller = caller
        self._last_message = 0.0
        self._looked_at = time.monotonic()

    def look_age(self) -> float:
        """Seconds since this worker last looked for calls: what a dead consumer does not do."""
        return time.monotonic() - self._looked_at

    def take_message(self, call_id: str, request_id: str) -> None:
        """What a message leads to. Waits for a slot: the calls that were asked for may have all of them."""
        self._last_message = time.monotonic()
        with self._worker.slots:
            self._caller.take(call_id, request_id)

    def idle_loop(self) -> None:
        """Ask the journal for a call when there is a free slot and no message came for a while.

        So a lost message costs seconds, and a consumer that went deaf costs no more.
        """
        worker = self._worker
        pause = worker.settings.idle_claim_seconds
        while not worker.stopping.wait(min(pause, 1.0)):
            if time.monotonic() - self._last_message < pause or worker.incarnation.low_disk:
                self._looked_at = time.monotonic()
                continue
            try:
                taken = self._take_claimable()
            except (StoreError, SQLAlchemyError) as error:
                log.debug("not_asked", why=str(error))
                continue
            self._looked_at = time.monotonic()
            if not taken:
                self._last_message = time.monotonic()

    def _take_claimable(self) -> int:
        worker = self._worker
        free = worker.settings.concurrency - len(worker.hands.all())
        if free <= 0:
            return 0
        taken = 0
        for call_id, request_id in claims.claimable(worker.database, worker.incarnation.worker_id, free):
            if not worker.slots.acquire(blocking=False):
                break
            taken += 1
            threading.Thread(
                target=self._take_in_slot, args=(call_id, request_id), name=f"call-{call_id}", daemon=True
            ).start()
        return taken

    def _take_in_slot(self, call_id: str, request_id: str) -> None:
        try:
            self._caller.take(call_id, request_id)
        finally:
            self._worker.slots.release()


class StopFlags:
    """Tells the calls in hand when their run was paused or cancelled, or when a resume ends them."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._woken = threading.Event()

    def loop(self) -> None:
        """Subscribe, then read, then wait: for a wake-up, at most `poll_seconds`. Goes on while the worker drains."""
        worker = self._worker
        worker.wakeups.subscribe(self._hear)
        while True:
            try:
                self.poll()
            except (StoreError, SQLAlchemyError) as error:
                log.debug("stop_flags_unread", why=str(error))
            self._woken.wait(worker.settings.poll_seconds)
            # Runs wake at every row: a stop that is seen a moment later costs less than a look at each of them.
            time.sleep(_LOOK_PAUSE_SECONDS)
            self._woken.clear()

    def poll(self) -> None:
        """Read the stop flags of the calls in hand and of their runs: two statements for all."""
        in_hand: dict[str, list[Callable[[str], None]]] = {}
        hands = self._worker.hands.claimed()
        for hand in hands:
            if hand.claim is not None:
                in_hand.setdefault(hand.claim.run_id, []).append(hand.tell)
        if not in_hand:
            return
        stopped = dict(stopping.told_to_stop(self._worker.database, [hand.call_id for hand in hands]))
        for hand in hands:
            if hand.call_id in stopped:
                hand.tell(stopped[hand.call_id])
        for run_id, _, stop in runs.poll(self._worker.database, dict.fromkeys(in_hand, 0)):
            if stop is not None:
                for tell in in_hand[run_id]:
                    tell(stop)

    def _hear(self, run_id: str) -> None:
        if any(hand.claim is not None and hand.claim.run_id == run_id for hand in self._worker.hands.claimed()):
            self._woken.set()

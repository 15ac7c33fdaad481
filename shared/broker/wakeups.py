"""Wake-ups: "something happened in this run", told over pub/sub, never relied upon.

Whoever waits subscribes first, then reads, then waits, with a poll of the journal
as floor: a wake-up that is lost costs `poll_seconds`, nothing else.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import redis

from shared.base.log import get_logger
from shared.broker.client import connect
from shared.broker.names import WAKE_CHANNEL

_RECONNECT_SECONDS = 1.0
log = get_logger()


class Wakeups:
    """Tells and hears of runs in which something happened.

    `tell` hands the run over to a thread and returns; what comes while the thread
    is sending is gathered and each run told once.
    """

    def __init__(self, broker_url: str) -> None:
        self._url = broker_url
        self._pending: dict[str, None] = {}
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._sender: threading.Thread | None = None
        self._listeners: list[threading.Thread] = []

    def tell(self, run_id: str) -> None:
        """Say that something happened in a run. Never raises, never waits for the broker."""
        with self._changed:
            self._pending[run_id] = None
            if self._sender is None:
                self._sender = threading.Thread(target=self._send_loop, name="wakeups-tell", daemon=True)
                self._sender.start()
            self._changed.notify()

    def subscribe(self, callback: Callable[[str], None], *, wait_seconds: float = 1.0) -> None:
        """Call `callback(run id)` from a thread for each wake-up from now on.

        Returns when the subscription stands, or after `wait_seconds` without a broker: it goes on trying.
        """
        standing = threading.Event()
        thread = threading.Thread(target=self._listen_loop, args=(callback, standing), name="wakeups-hear", daemon=True)
        self._listeners.append(thread)
        thread.start()
        standing.wait(wait_seconds)

    def close(self) -> None:
        """Stop telling and hearing."""
        self._closed.set()
        with self._changed:
            self._changed.notify()
        for thread in (self._sender, *self._listeners):
            if thread is not None and thread is not threading.current_thread():
                thread.join(2.0)

    def _send_loop(self) -> None:
        client = connect(self._url)
        while True:
            with self._changed:
                while not self._pending and not self._closed.is_set():
                    self._changed.wait()
                runs, self._pending = self._pending, {}
            if not runs and self._closed.is_set():
                client.close()
                return
            try:
                with client.pipeline(transaction=False) as pipeline:
                    for run_id in runs:
                        pipeline.publish(WAKE_CHANNEL, run_id)
                    pipeline.execute()
            except (redis.exceptions.RedisError, OSError):
                # Lost wake-ups cost a poll interval; telling them later would help nobody.
                self._closed.wait(0.1)

    def _listen_loop(self, callback: Callable[[str], None], standing: threading.Event) -> None:
        heard_before = False
        while not self._closed.is_set():
            client = connect(self._url)
            try:
                with client.pubsub() as subscription:  # type: ignore[no-untyped-call]
                    subscription.subscribe(WAKE_CHANNEL)
                    while not self._closed.is_set():
                        message = subscription.get_message(timeout=0.5)
                        if message is None:
                            continue
                        if message["type"] == "subscribe":
                            standing.set()
                            if heard_before:
                                log.info("wakeups_back")
                            heard_before = True
                        elif message["type"] == "message":
                            callback(message["data"].decode("utf-8", "replace"))
            except (redis.exceptions.RedisError, OSError):
                if heard_before:
                    log.warning("wakeups_lost", instead="polling")
                self._closed.wait(_RECONNECT_SECONDS)
            finally:
                with contextlib.suppress(redis.exceptions.RedisError, OSError):
                    client.close()

"""Which event belongs to which call: by thread and turn, never by turn alone.

A fork repeats its source's turn ids, so a turn is named by both. A cursor is opened
before its turn is sent, so that no event can come before there is somebody to take
it; events of threads without a cursor (subagents, replays, other clients) are
logged and passed over. Source: App Server document, "The App Server backend";
settled conflict of unique turn ids.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from shared.base.errors import AnswerLost
from shared.base.log import get_logger
from workers.appserver.limits import merge_rate_limits
from workers.appserver.record import Progress, TurnEnd, TurnRecord
from workers.appserver.transport import Message

log = get_logger()


class TurnCursor:
    """The events of one turn, for the one call that sends it. A context manager; closing stops the listening."""

    def __init__(self, router: Router, thread_id: str) -> None:
        self.thread_id = thread_id
        self.turn_id: str | None = None
        self._router = router
        self._changed = threading.Condition()
        self._records: dict[str, TurnRecord] = {}
        self._gone: str | None = None

    def __enter__(self) -> TurnCursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more."""
        self._router.forget(self)

    def bind(self, turn_id: str, *, begun: bool = False) -> None:
        """From now on this cursor's turn is `turn_id`; what other turns said is dropped.

        Args:
            begun: it is known to run already: its begin will not be told again.
        """
        with self._changed:
            self.turn_id = turn_id
            record = self._records.get(turn_id) or TurnRecord(self.thread_id, turn_id)
            record.started = record.started or begun
            self._records = {turn_id: record}

    def wait(self, timeout_seconds: float) -> TurnEnd | None:
        """The turn's end, or None when it did not come in time.

        Raises:
            AnswerLost: the server ended first; how the turn ended is not known.
        """
        record = self._wait_for(lambda: self._bound if self._bound and self._bound.end else None, timeout_seconds)
        return record.end if record else None

    def wait_started(self, timeout_seconds: float) -> bool:
        """Whether the turn has begun (or already ended) within the time. Raises AnswerLost as `wait` does."""
        return self._wait_for(lambda: self._bound if self._begun else None, timeout_seconds) is not None

    def wait_delivered(self, timeout_seconds: float) -> bool:
        """Whether the turn's input is on the server's disk within the time. Raises AnswerLost as `wait` does."""
        return self._wait_for(lambda: self._bound if self._delivered else None, timeout_seconds) is not None

    def find_operation(self, operation: str, timeout_seconds: float) -> str | None:
        """The turn that began since this cursor was opened and whose first input carries the operation."""

        def find() -> TurnRecord | None:
            found = (r for r in self._records.values() if r.started and r.client_id == operation)
            return next(found, None)

        record = self._wait_for(find, timeout_seconds)
        return record.turn_id if record else None

    @property
    def ended(self) -> TurnEnd | None:
        """The turn's end, if it has come."""
        return self._bound.end if self._bound else None

    @property
    def delivered(self) -> bool:
        """Whether the turn's input is on the server's disk."""
        return bool(self._delivered)

    @property
    def progress(self) -> Progress | None:
        """What the turn is doing; None before it is bound."""
        with self._changed:
            return self._bound.progress if self._bound else None

    @property
    def _bound(self) -> TurnRecord | None:
        return self._records.get(self.turn_id) if self.turn_id else None

    @property
    def _begun(self) -> bool:
        return bool(self._bound and (self._bound.started or self._bound.end))

    @property
    def _delivered(self) -> bool:
        return bool(self._bound and self._bound.delivered)

    def _wait_for(self, find: Callable[[], TurnRecord | None], timeout_seconds: float) -> TurnRecord | None:
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while (record := find()) is None:
                if self._gone is not None:
                    raise AnswerLost(f"the App Server ended ({self._gone}) while a turn of {self.thread_id} was open")
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return find()
            return record

    def take(self, method: str, turn_id: str, params: Mapping[str, Any]) -> None:
        """One event of this thread, from the reader thread."""
        with self._changed:
            if self.turn_id is not None and turn_id != self.turn_id:
                log.debug("app_server_event_of_other_turn", method=method, thread=self.thread_id, turn=turn_id)
                return
            record = self._records.setdefault(turn_id, TurnRecord(self.thread_id, turn_id))
            record.take(method, params)
            self._changed.notify_all()

    def end(self, why: str) -> None:
        """The connection is gone."""
        with self._changed:
            self._gone = why
            self._changed.notify_all()


class Router:
    """All cursors of one connection, and what the server says about itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cursors: dict[str, TurnCursor] = {}
        self._gone: str | None = None
        self._rate_limits: dict[str, Any] = {}

    def open(self, thread_id: str) -> TurnCursor:
        """Listen to a thread. One cursor a thread: a thread has one call at a time."""
        cursor = TurnCursor(self, thread_id)
        with self._lock:
            if thread_id in self._cursors:
                raise RuntimeError(f"thread {thread_id} is already listened to")
            self._cursors[thread_id] = cursor
            gone = self._gone
        if gone is not None:
            cursor.end(gone)
        return cursor

    def forget(self, cursor: TurnCursor) -> None:
        """Stop listening for a cursor."""
        with self._lock:
            if self._cursors.get(cursor.thread_id) is cursor:
                del self._cursors[cursor.thread_id]

    @property
    def rate_limits(self) -> dict[str, Any]:
        """The account's windows as last reported; members the server never named are missing."""
        with self._lock:
            return dict(self._rate_limits)

    def receive(self, message: Message) -> None:
        """One notification, from the reader thread."""
        method, params = str(message["method"]), message.get("params") or {}
        if method == "account/rateLimits/updated":
            with self._lock:
                self._rate_limits = merge_rate_limits(self._rate_limits, params.get("rateLimits") or {})
            return
        thread_id = params.get("threadId")
        turn_id = params.get("turnId") or (params.get("turn") or {}).get("id")
        if not thread_id or not turn_id:
            return
        with self._lock:
            cursor = self._cursors.get(thread_id)
        if cursor is None:
            log.debug("app_server_event_of_unknown_thread", method=method, thread=thread_id)
        else:
            cursor.take(method, turn_id, params)

    def end(self, why: str) -> None:
        """The connection is gone: everybody who waits hears it."""
        with self._lock:
            self._gone = why
            cursors = list(self._cursors.values())
        for cursor in cursors:
            cursor.end(why)

"""Requests and their answers: one slot a request, a deadline on each, three fates.

* `NotSent`: the frame did not leave, or the server says it did not take it (-32001).
* `Refused`: the server's definitive no, in finer classes where a caller decides by them.
* `AnswerLost`: the frame may have had its effect (deadline, death, half a frame).

Never more than 64 requests are open: above some 128 the real server loses answers.
Source: facts of the App Server, "Transport"; conflict of unanswered requests.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from shared.base.errors import AnswerLost, HostError, NotSent, Refused, ThreadBusy, ThreadMissing, TurnActive
from shared.base.log import get_logger
from workers.appserver.transport import Message, Transport

log = get_logger()

MAX_IN_FLIGHT = 64
OVERLOADED = -32001
_INTERNAL = -32603
_SCHEMA_MISMATCH = "ActiveTurnOutputSchemaMismatch"
# All "not there" answers share one code with everything else: these texts are what tells them apart.
_MISSING = ("thread not loaded: ", "no rollout found for thread id ", "thread not found: ")
_BUSY = "already has an active writer"
_TEXT_CHARACTERS = 500

BeforeSend = Callable[[str, Mapping[str, Any]], None]


def read_error(method: str, error: Mapping[str, Any]) -> HostError:
    """The error class of a server's `error` member; `facts["text"]` is what it said, whole."""
    code, text = error.get("code"), str(error.get("message", ""))
    facts = {"code": code, "data": error.get("data"), "method": method, "text": text}
    sentence = f"the App Server refused {method}: {_shortened(text)}"
    if code == OVERLOADED:
        return NotSent(f"the App Server is overloaded and did not take {method}", **facts)
    if code == _INTERNAL and _SCHEMA_MISMATCH in text:
        return TurnActive(f"a turn is running on the thread, so {method} was refused", **facts)
    if text.startswith(_MISSING):
        return ThreadMissing(sentence, **facts)
    if text.endswith(_BUSY):
        return ThreadBusy(sentence, **facts)
    return Refused(sentence, **facts)


def _shortened(text: str) -> str:
    """A text for people: what it is about stands at its beginning, and behind long paths what is wrong at its end."""
    half = _TEXT_CHARACTERS // 2
    return text if len(text) <= _TEXT_CHARACTERS else f"{text[:half]} … {text[-half:]}"


class Rpc:
    """The client side of one connection. Safe for many threads."""

    def __init__(self, transport: Transport, *, timeout_seconds: float, before_send: BeforeSend | None = None) -> None:
        self._transport = transport
        self._timeout_seconds = timeout_seconds
        self._before_send = before_send
        self._ids = itertools.count(1)
        self._places = threading.BoundedSemaphore(MAX_IN_FLIGHT)
        self._lock = threading.Lock()
        self._slots: dict[int, tuple[str, Future[Message]]] = {}
        self._ended: str | None = None

    def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_seconds: float | None = None,
        before_send: BeforeSend | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result.

        Args:
            before_send: called with method and params right before the frame is
                written, after the connection's own hook; what it raises goes to
                the caller and nothing was sent.

        Raises:
            NotSent, Refused, AnswerLost: see the module.
        """
        deadline = time.monotonic() + (self._timeout_seconds if timeout_seconds is None else timeout_seconds)
        if not self._places.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise NotSent(f"{MAX_IN_FLIGHT} requests are open: {method} was not sent in time", method=method)
        number, answer = next(self._ids), Future[Message]()
        try:
            self._open(number, method, answer)

            def check() -> None:
                for hook in (self._before_send, before_send):
                    if hook is not None:
                        hook(method, params)

            self._transport.write({"id": number, "method": method, "params": dict(params)}, deadline, check)
            message = answer.result(max(0.0, deadline - time.monotonic()))
        except FutureTimeout:
            raise AnswerLost(f"the App Server did not answer {method} in time", method=method) from None
        finally:
            with self._lock:
                self._slots.pop(number, None)
            self._places.release()
        if "error" in message:
            raise read_error(method, message["error"])
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    def _open(self, number: int, method: str, answer: Future[Message]) -> None:
        with self._lock:
            if self._ended is not None:
                raise NotSent(f"the App Server has ended ({self._ended}): {method} was not sent", method=method)
            self._slots[number] = (method, answer)

    def send(self, frame: Mapping[str, Any], timeout_seconds: float = 5.0) -> None:
        """Write a frame that has no answer: a notification, or our answer to a server's request."""
        self._transport.write(frame, time.monotonic() + timeout_seconds)

    def receive(self, message: Message) -> None:
        """Take a response from the reader thread."""
        with self._lock:
            slot = self._slots.get(message.get("id", -1))
        if slot is None:
            log.info("app_server_answer_late", id=message.get("id"))
        elif not slot[1].done():
            slot[1].set_result(message)

    def end(self, why: str) -> None:
        """The connection is gone: every open request has lost its answer."""
        with self._lock:
            self._ended = self._ended or why
            slots = list(self._slots.values())
        for method, answer in slots:
            if not answer.done():
                answer.set_exception(
                    AnswerLost(f"the App Server ended ({why}) before it answered {method}", method=method)
                )

"""Frames over two pipes: one JSON object a line, out under a deadline, in without a cap.

Raw dicts in both directions: a member this program does not know is no error, and
neither is a line that is no JSON (it is logged and passed over). Source: design of
the farm, "The agent call"; conflict of generated types as the protocol's binding.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from shared.base.errors import AnswerLost, NotSent
from shared.base.log import get_logger

log = get_logger()

Message = dict[str, Any]
_CLOSE_SECONDS = 1.0


def encode(frame: Mapping[str, Any]) -> bytes:
    """A frame as one line. Lone surrogates, which no UTF-8 has, become question marks."""
    return (
        json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
    )


class Transport:
    """Both ends of a server's standard streams."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._writing = threading.Lock()
        self._broken = False
        # A server that stops reading must not hold a writer for ever.
        os.set_blocking(stdin.fileno(), False)
        # Not select(), which knows no descriptor above 1023.
        self._takes_more = select.poll()
        self._takes_more.register(stdin.fileno(), select.POLLOUT)

    def write(self, frame: Mapping[str, Any], deadline: float, before: Callable[[], None] = lambda: None) -> None:
        """Write one frame by `deadline` (monotonic seconds); `before` runs right before its first byte.

        Raises:
            NotSent: not one byte went out.
            AnswerLost: a part of the frame went out; the stream is unusable from here on.
            Exception: whatever `before` raised; nothing went out.
        """
        data = memoryview(encode(frame))
        if not self._writing.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise NotSent("the App Server reads too slowly: the frame was not written in time")
        try:
            if self._broken:
                raise NotSent("the connection to the App Server is closed")
            before()
            self._write_all(data, deadline)
        finally:
            self._writing.release()

    def _write_all(self, data: memoryview, deadline: float) -> None:
        total, file = len(data), self._stdin.fileno()
        while data:
            try:
                data = data[os.write(file, data) :]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0 or not self._takes_more.poll(left * 1000):
                    self._fail(len(data) < total, "did not take the whole frame in time")
            except OSError as error:
                self._fail(len(data) < total, f"closed its input ({error.strerror})")

    def _fail(self, partly: bool, what: str) -> None:
        # Half a line would swallow the next frame, so nobody may write after it.
        if partly:
            self._broken = True
            raise AnswerLost(f"the App Server {what}; a part of the request is out")
        raise NotSent(f"the App Server {what}")

    def read_all(self, receive: Callable[[Message], None]) -> None:
        """Give every message to `receive` until the stream ends. Runs on the connection's reader thread."""
        for line in self._stdout:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                log.warning("app_server_line_no_json", bytes=len(line))
                continue
            if not isinstance(message, dict):
                log.warning("app_server_line_no_object", bytes=len(line))
                continue
            try:
                receive(message)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                # A message of a form nobody knows yet must not end the reading of all others.
                log.warning("app_server_message_odd", method=message.get("method"), why=repr(error))

    def close_input(self) -> None:
        """End of the server's input: its order to stop. Left undone while a writer is stuck in it."""
        self._broken = True
        if self._writing.acquire(timeout=_CLOSE_SECONDS):
            with contextlib.suppress(OSError):
                self._stdin.close()
            self._writing.release()

    def close(self) -> None:
        """Give both descriptors back, once the server is gone and its output was read."""
        self.close_input()
        with contextlib.suppress(OSError):
            self._stdout.close()

"""The fake's side of the pipe: answers, notifications, questions to the client."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from typing import Any

Frame = dict[str, Any]


class RpcError(Exception):
    """An error reply."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def invalid(message: str) -> RpcError:
    """The code that the server gives to nearly everything."""
    return RpcError(-32600, message)


class Wire:
    """Writes frames to standard output, one a line."""

    def __init__(self) -> None:
        self.opted_out: frozenset[str] = frozenset()
        self._questions: dict[int, asyncio.Future[Frame]] = {}
        self._numbers = itertools.count(0)

    def write(self, frame: Frame) -> None:
        """One frame."""
        sys.stdout.buffer.write(json.dumps(frame).encode() + b"\n")
        sys.stdout.buffer.flush()

    def raw(self, data: bytes) -> None:
        """Bytes that are no frame."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def answer(self, number: Any, result: Frame) -> None:
        """The result of a request."""
        self.write({"id": number, "result": result})

    def refuse(self, number: Any, error: RpcError) -> None:
        """The error of a request."""
        body: Frame = {"code": error.code, "message": str(error)}
        self.write({"id": number, "error": body if error.data is None else {**body, "data": error.data}})

    def notify(self, method: str, params: Frame) -> None:
        """A notification, unless the client opted out of it."""
        if method not in self.opted_out:
            self.write({"method": method, "params": params, "emittedAtMs": int(time.time() * 1000)})

    async def ask(self, method: str, params: Frame) -> Frame:
        """A request to the client; its whole answer."""
        number = next(self._numbers)
        question = asyncio.get_running_loop().create_future()
        self._questions[number] = question
        self.write({"method": method, "id": number, "params": params})
        answer: Frame = await question
        self.notify("serverRequest/resolved", {"threadId": params.get("threadId"), "requestId": number})
        return answer

    def answered(self, frame: Frame) -> None:
        """An answer of the client to one of our requests."""
        question = self._questions.get(frame.get("id", -1))
        if question is not None and not question.done():
            question.set_result(frame)

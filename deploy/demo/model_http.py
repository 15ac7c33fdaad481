"""One HTTP request to the scripted model: the step's stream, with its delays and its faults."""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import struct
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from deploy.demo.model_script import Step, fill_in, item_events, step_items

_EVENT_WAIT_SECONDS = 120.0
_FOREVER_SECONDS = 1e9


class _Event(Protocol):
    def is_set(self) -> bool: ...
    def set(self) -> None: ...


class _Model(Protocol):
    """What a handler needs of the model it serves."""

    scripts: dict[str, Any]
    stopping: Any

    def take(self, body: Mapping[str, Any], path: str) -> tuple[Step, dict[str, Any]]: ...
    def event(self, name: str) -> _Event: ...
    def requests(self) -> list[dict[str, Any]]: ...


class ModelHandler(BaseHTTPRequestHandler):
    """Answers one connection; the class is given its `model` when the server starts."""

    protocol_version = "HTTP/1.1"
    model: _Model

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the model keeps its own record."""

    def do_GET(self) -> None:
        """The record of requests, or an empty catalogue of models."""
        if self.path.startswith("/requests"):
            return self._json(200, self.model.requests())
        self._json(200, {"data": [], "models": []})

    def do_POST(self) -> None:
        """A request of the Responses API, or one of the two controls beside it."""
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        if self.path.startswith("/release/"):
            self.model.event(self.path.removeprefix("/release/")).set()
            return self._json(200, {})
        if self.path == "/scripts":
            self.model.scripts.update(json.loads(raw))
            return self._json(200, {})
        body = json.loads(raw)
        try:
            step, record = self.model.take(body, self.path)
            self._run(step, record["number"], body.get("input") or [])
        except ValueError as error:
            # A script with a mistake in it must say so where its author looks: in the turn's error.
            self._json(400, {"error": {"message": f"scripted model: {error}"}})
        except ConnectionError:
            self.close_connection = True

    def _run(self, step: Step, number: int, items: list[Any]) -> None:
        if step.get("reset"):
            # Linger 0 makes the close a reset instead of an orderly end.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        self._pause(step.get("delay"))
        if step.get("wait_event"):
            self._await_event(step["wait_event"])
        if step.get("http"):
            failure = {"error": {"message": f"scripted {step['http']}"}}
            return self._json(step["http"], step.get("body", failure), step.get("headers"))
        # Every item is read before the first byte: once a stream is open, a mistake can only break it off.
        scripted = fill_in(step_items(step), items, number)
        events = [list(item_events(spec, index, f"{number}_{index}")) for index, spec in enumerate(scripted)]
        self._open_stream(step.get("headers") or {})
        response = {"id": f"resp_{number}"}
        self._event({"type": "response.created", "response": response})
        self._pause(step.get("hang"))
        self._pause(step.get("before"))
        for event, seconds in itertools.chain.from_iterable(events):
            self._pause(seconds)
            self._event(event)
        self._pause(step.get("hang_late"))
        self._pause(step.get("after"))
        if step.get("cut"):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self._event(_end_event(step, response))
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _open_stream(self, headers: Mapping[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()

    def _event(self, event: Mapping[str, Any]) -> None:
        chunk = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        self.wfile.flush()

    def _json(self, status: int, value: Any, headers: Mapping[str, Any] | None = None) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        for name, text in (headers or {}).items():
            self.send_header(name, str(text))
        self.end_headers()
        self.wfile.write(raw)

    def _await_event(self, name: str) -> None:
        event, end = self.model.event(name), time.monotonic() + _EVENT_WAIT_SECONDS
        while not event.is_set() and time.monotonic() < end and not self.model.stopping.is_set():
            self._pause(0.1)

    def _pause(self, seconds: float | bool | None) -> None:
        """Wait, and notice a client that went away or a stop."""
        if not seconds:
            return
        end = time.monotonic() + (_FOREVER_SECONDS if seconds is True else float(seconds))
        while time.monotonic() < end and not self.model.stopping.is_set():
            try:
                self.connection.settimeout(min(0.25, max(0.001, end - time.monotonic())))
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    raise ConnectionResetError
                time.sleep(0.05)
            except TimeoutError:
                pass
            finally:
                self.connection.settimeout(None)


def _end_event(step: Step, response: Mapping[str, Any]) -> dict[str, Any]:
    if step.get("failed"):
        failed = {**response, "status": "failed", "error": step["failed"]}
        return {"type": "response.failed", "response": failed}
    if step.get("incomplete"):
        details = {"reason": step["incomplete"]}
        incomplete = {**response, "status": "incomplete", "incomplete_details": details}
        return {"type": "response.incomplete", "response": incomplete}
    tokens = {"input": 11, "cached": 0, "output": 7, "reasoning": 0, **step.get("usage", {})}
    usage = {
        "input_tokens": tokens["input"],
        "input_tokens_details": {"cached_tokens": tokens["cached"]},
        "output_tokens": tokens["output"],
        "output_tokens_details": {"reasoning_tokens": tokens["reasoning"]},
        "total_tokens": tokens["input"] + tokens["output"],
    }
    ended: dict[str, Any] = {**response, "usage": usage}
    if "end_turn" in step:
        ended["end_turn"] = step["end_turn"]
    return {"type": "response.completed", "response": ended}

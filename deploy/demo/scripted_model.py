"""A model provider that answers from a script: the Responses API on a local port.

No account, no network: with it as the configured provider, a real App Server runs
real threads, commands and edits. `deploy/demo/model_script.py` gives the language.

    python -m deploy.demo.scripted_model --port 0 --scripts scripts.json --log requests.jsonl

prints one JSON line `{"port", "base_url"}` and serves until SIGTERM, SIGINT or,
with --exit-on-eof, the end of its standard input. Beside the API it answers
`GET /requests` (what it was asked), `POST /release/NAME` (an event a step waits
for) and `POST /scripts` (more scripts).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from deploy.demo.model_http import ModelHandler
from deploy.demo.model_script import Script, Step, choose_script, script_steps

# A body is some 50 kB; a farm that runs scripted for a day must not keep them all.
_KEPT_REQUESTS = 256


class ScriptedModel:
    """The provider: scripts, a record of requests, an HTTP server on a thread.

    Shape: `base_url` for the provider's configuration; `requests()` the newest
    requests as dicts with number, thread, turn, kind, script, step and body.
    """

    def __init__(
        self,
        scripts: Mapping[str, Script] | None = None,
        *,
        log: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.scripts: dict[str, Script] = dict(scripts or {})
        self._requests: deque[dict[str, Any]] = deque(maxlen=_KEPT_REQUESTS)
        self.stopping = threading.Event()
        self._log = log
        self._address = (host, port)
        self._lock = threading.Lock()
        self._asked = 0
        self._steps: dict[tuple[str, str, str], int] = {}
        self._events: dict[str, threading.Event] = {}
        self._server: ThreadingHTTPServer | None = None

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        assert self._server is not None, "start() comes first"
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        """What the provider's `base_url` is set to."""
        return f"http://{self._address[0]}:{self.port}/v1"

    def start(self) -> ScriptedModel:
        """Serve on a thread of its own. Returns itself."""
        self._server = _Server(self._address, type("Handler", (ModelHandler,), {"model": self}))
        threading.Thread(target=self._server.serve_forever, name="scripted-model", daemon=True).start()
        return self

    def stop(self) -> None:
        """End the server; requests that hang are cut."""
        self.stopping.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def requests(self) -> list[dict[str, Any]]:
        """What the model was asked, in order; the newest of it."""
        with self._lock:
            return list(self._requests)

    def event(self, name: str) -> threading.Event:
        """The named event that steps wait for."""
        with self._lock:
            return self._events.setdefault(name, threading.Event())

    def take(self, body: Mapping[str, Any], path: str) -> tuple[Step, dict[str, Any]]:
        """Choose the step that answers a request, and keep a record of it."""
        thread, turn, kind = _origin(body)
        chosen = choose_script(body.get("input") or [])
        steps, by_thread = chosen.steps, False
        key = chosen.key
        if kind != "turn" and f"kind:{kind}" in self.scripts:
            key, steps = f"kind:{kind}", None
        if steps is None:
            steps, by_thread = script_steps(self.scripts.get(key, self.scripts.get("default")))
        counted = (thread, "" if by_thread else turn, key)
        with self._lock:
            step = self._steps.get(counted, 0)
            self._steps[counted] = step + 1
            record = {
                "number": self._asked,
                "at": time.time(),
                "path": path,
                "thread": thread,
                "turn": turn,
                "kind": kind,
                "script": key,
                "step": step,
                "body": body,
            }
            self._asked += 1
            self._requests.append(record)
            if self._log is not None:
                with open(self._log, "a", encoding="utf-8") as sink:
                    sink.write(json.dumps(record) + "\n")
        return steps[min(step, len(steps) - 1)], record


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that went away mid-stream is part of the scripts, not a fault to print.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def provider_config(base_url: str, *, model: str = "scripted", retries: int = 0) -> dict[str, Any]:
    """What `codex.config` holds so that the App Server asks this provider."""
    provider = {
        "name": "scripted",
        "base_url": base_url,
        "wire_api": "responses",
        "request_max_retries": retries,
        "stream_max_retries": retries,
    }
    return {"model": model, "model_provider": "scripted", "model_providers": {"scripted": provider}}


def _origin(body: Mapping[str, Any]) -> tuple[str, str, str]:
    """`(thread, turn, kind of request)` of a request, as the App Server marks it."""
    metadata = body.get("client_metadata") or {}
    try:
        turn_metadata = json.loads(metadata.get("x-codex-turn-metadata") or "{}")
    except ValueError:
        turn_metadata = {}
    thread = metadata.get("thread_id") or turn_metadata.get("thread_id") or body.get("prompt_cache_key") or ""
    turn = metadata.get("turn_id") or turn_metadata.get("turn_id") or ""
    return thread, turn, turn_metadata.get("request_kind") or "turn"


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m deploy.demo.scripted_model", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--scripts", type=Path, help="JSON file {name: script}")
    parser.add_argument("--log", type=Path, help="append every request as a JSON line")
    parser.add_argument("--exit-on-eof", action="store_true", help="stop when standard input closes")
    asked = parser.parse_args(argv)
    scripts = json.loads(asked.scripts.read_text(encoding="utf-8")) if asked.scripts else None
    model = ScriptedModel(scripts, log=asked.log, host=asked.host, port=asked.port).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: model.stopping.set())
    print(json.dumps({"port": model.port, "base_url": model.base_url}), flush=True)
    if asked.exit_on_eof:
        threading.Thread(target=_stop_at_eof, args=(model,), daemon=True).start()
    model.stopping.wait()
    model.stop()


def _stop_at_eof(model: ScriptedModel) -> None:
    sys.stdin.read()
    model.stopping.set()


if __name__ == "__main__":
    main()

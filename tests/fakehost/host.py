"""The fake's main loop: frames in, faults struck, methods called, turns run."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.fakehost.faults import Faults, Log
from tests.fakehost.methods import METHODS
from tests.fakehost.store import FakeThread, Store
from tests.fakehost.terminals import Terminals
from tests.fakehost.turn import RunningTurn
from tests.fakehost.wire import Frame, RpcError, Wire, invalid


class Host:
    """One process of the fake."""

    def __init__(self, state: Path, home: Path, version: str, config: dict[str, Any]) -> None:
        self.state = state
        self.home = home
        self.version = version
        self.config = config
        self.wire = Wire()
        self.log = Log(state)
        self.faults = Faults(state)
        self.store: Store = Store(home)
        self.terminals: Terminals = Terminals()
        self.running: dict[str, RunningTurn] = {}
        # How often a script has answered on a thread, for scripts that count over a thread's turns.
        self.answered: Counter[tuple[str, str]] = Counter()
        self.interrupted: dict[str, str] = {}
        self._unanswered: dict[str, list[Any]] = {}
        self._initialized = False
        self._subscribed: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def scripts(self) -> dict[str, Any]:
        """The named scripts, read anew so that a test may change them."""
        try:
            scripts: dict[str, Any] = json.loads((self.state / "scripts.json").read_text())
        except FileNotFoundError:
            return {}
        return scripts

    async def serve(self) -> None:
        """Until the input ends."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 30)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
        # A term signal is an end of the input.
        loop.add_signal_handler(signal.SIGTERM, reader.feed_eof)
        self.log.write("requests.jsonl", event="start", version=self.version, home=str(self.home))
        while line := await reader.readline():
            try:
                frame = json.loads(line)
            except ValueError:
                continue
            if not isinstance(frame, dict):
                continue
            if "method" not in frame:
                self.wire.answered(frame)
            elif "id" in frame:
                await self._request(frame)
            await asyncio.sleep(0)
        await self._stop()

    async def _request(self, frame: Frame) -> None:
        method = frame["method"]
        self.log.write("requests.jsonl", method=method, id=frame["id"], params=frame.get("params"))
        fault = self.faults.strike(method) or {"do": None}
        if fault["do"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault["do"] == "lose":
            return
        elif fault["do"] == "overload":
            return self.wire.refuse(frame["id"], RpcError(-32001, "Server overloaded; retry later."))
        elif fault["do"] == "refuse":
            return self.wire.refuse(frame["id"], RpcError(fault.get("code", -32600), fault.get("message", "refused")))
        elif fault["do"] == "garbage":
            self.wire.raw(
                b"this is no json\n[1]\n" + json.dumps({"method": "x", "params": "y" * (2 << 20)}).encode() + b"\n"
            )
        elif fault["do"] == "deaf":
            # Blocks the loop on purpose: a process that reads nothing.
            time.sleep(fault["seconds"])
        elif fault["do"] == "alter":
            frame = {**frame, "params": {**frame["params"], **fault["params"]}}
        answer = self._perform(frame)
        if fault["do"] == "die_after":
            await asyncio.sleep(fault.get("seconds", 0))
            os.kill(os.getpid(), signal.SIGKILL)
        if fault["do"] == "late":
            asyncio.get_running_loop().call_later(fault["seconds"], answer)
        elif fault["do"] != "drop":
            answer()
        if fault["do"] == "die_answered":
            await asyncio.sleep(fault.get("seconds", 0))
            os.kill(os.getpid(), signal.SIGKILL)

    def _perform(self, frame: Frame) -> Callable[[], None]:
        """Do what a frame asks; what is returned writes the answer."""
        number, method = frame["id"], frame["method"]
        try:
            result = self._call(method, frame)
        except RpcError as error:
            refusal = error
            return lambda: self.wire.refuse(number, refusal)
        if result is None:
            self._unanswered.setdefault(frame["params"]["threadId"], []).append(number)
            return lambda: None
        return lambda: self.wire.answer(number, result)

    def _call(self, method: str, frame: Frame) -> dict[str, Any] | None:
        if method == "initialize":
            return self._initialize(frame.get("params") or {})
        if not self._initialized:
            raise invalid("Not initialized")
        if "params" not in frame:
            raise invalid("Invalid request: missing field `params`")
        if method not in METHODS:
            raise invalid(f"Invalid request: unknown variant `{method}`, expected one of `initialize`, `thread/start`")
        return METHODS[method](self, frame["params"])

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self._initialized:
            raise invalid("Already initialized")
        self._initialized = True
        self.wire.opted_out = frozenset((params.get("capabilities") or {}).get("optOutNotificationMethods") or ())
        name = params["clientInfo"]["name"]
        agent = f"{name}/{self.version} (fake; x86_64) unknown ({name})"
        return {"userAgent": agent, "codexHome": str(self.home), "platformFamily": "unix", "platformOs": "linux"}

    def begin(self, turn: RunningTurn) -> None:
        """Run a turn; an interrupt that waited for one is answered now."""
        self.running[turn.thread.id] = turn
        self.interrupted.pop(turn.thread.id, None)
        for number in self._unanswered.pop(turn.thread.id, []):
            self.later(partial(self.wire.answer, number, {}))
        turn.task = asyncio.get_running_loop().create_task(turn.run())
        self._tasks.add(turn.task)
        turn.task.add_done_callback(self._tasks.discard)

    def ended(self, turn: RunningTurn) -> None:
        """A turn reached its end."""
        self.running.pop(turn.thread.id, None)
        if turn.interrupted:
            self.interrupted[turn.thread.id] = turn.id

    def is_running(self, thread_id: str, turn_id: str) -> bool:
        """Whether that turn runs now."""
        running = self.running.get(thread_id)
        return running is not None and running.id == turn_id

    def status(self, thread: FakeThread) -> str:
        """The word of a thread's status."""
        if thread.id not in self.store.loaded:
            return "notLoaded"
        if thread.id in self.running:
            return "active"
        return "systemError" if thread.failed else "idle"

    def listen(self, thread_id: str) -> None:
        """Tell the client of this thread's turns."""
        self._subscribed.add(thread_id)

    def unlisten(self, thread_id: str) -> None:
        """Tell it no more."""
        self._subscribed.discard(thread_id)

    def listens(self, thread_id: str) -> bool:
        """Whether the client hears of this thread's turns."""
        return thread_id in self._subscribed

    def later(self, call: Callable[[], Any]) -> None:
        """After the answer that is being made."""
        asyncio.get_running_loop().call_soon(call)

    async def _stop(self) -> None:
        """An orderly end: running turns are interrupted, and that is on disk."""
        for turn in list(self.running.values()):
            if turn.task is not None:
                turn.task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for thread_id in self.store.loaded:
            self.terminals.clean(thread_id)
        self.log.write("requests.jsonl", event="exit")


def read_overrides(arguments: list[str]) -> dict[str, Any]:
    """The `-c key=value` arguments as one nested table."""
    lines = [text for flag, text in itertools.pairwise(arguments) if flag == "-c"]
    config: dict[str, Any] = {}
    for line in lines:
        _merge(config, tomllib.loads(line))
    return config


def _merge(into: dict[str, Any], table: dict[str, Any]) -> None:
    for name, value in table.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value

"""The hosts the suite runs on: each with a state directory, a service and scripts for its model."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from deploy.demo.scripted_model import ScriptedModel, provider_config
from shared.base.settings import CodexSettings, Settings
from shared.model.operation import turn_operation
from tests.fakehost.install import FakeHost, install
from tests.waiting import wait_until
from workers.appserver import AppServerConnection, AppServerService, Thread, ThreadSettings, TurnEnd, TurnRequest
from workers.appserver.turns import FullTurn

FAKE = "fake"
DOWNLOADS = Path(__file__).resolve().parents[2] / "build" / "codex"
MODEL = "scripted"
TURN_SECONDS = 30.0
# On a busy machine a server takes many seconds for its share of a burst.
_REQUEST_SECONDS = 90.0
# A step that says a word and then never ends.
HANG = {"out": [{"msg": "working", "phase": "commentary"}], "hang_late": True}
_calls = itertools.count()


def installed_version() -> str | None:
    """The version of the codex wheel in this environment."""
    try:
        return version("openai-codex-cli-bin")
    except PackageNotFoundError:
        return None


def program_of(name: str) -> Path | None:
    """The executable of a real host; None means the installed wheel."""
    return None if name == installed_version() else DOWNLOADS / name / "codex_cli_bin" / "bin" / "codex"


class ContractHost:
    """One host under test.

    Shape: `name` of the host; `directory` its own; `fake` set for the fake; `service`
    as a worker has it, with a deadline that only an answer that is lost can miss.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.fake: FakeHost | None = None
        self.model: ScriptedModel | None = None
        program: str | None
        if name == FAKE:
            self.fake = install(directory)
            config, program = provider_config("http://127.0.0.1:9/v1"), str(self.fake.program)
        else:
            self.model = ScriptedModel().start()
            config, found = provider_config(self.model.base_url), program_of(name)
            program = str(found) if found else None
        codex = CodexSettings(bin=program, config=config, request_timeout_seconds=_REQUEST_SECONDS)
        self.settings = Settings(codex=codex)
        self.service = AppServerService(self.settings, directory)

    @property
    def connection(self) -> AppServerConnection:
        """The live connection."""
        return self.service.connection()

    def close(self) -> None:
        """Stop everything this host started."""
        self.service.stop()
        if self.model is not None:
            self.model.stop()

    def restart(self) -> AppServerConnection:
        """End the server in order; a new one on the same home."""
        self.service.stop()
        self.service = AppServerService(self.settings, self.directory)
        return self.connection

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the server with a signal, and wait until it is gone."""
        connection = self.connection
        os.kill(connection._server.pid, number)
        wait_until(connection._server._exited.is_set, 15, "the server to be gone")

    @contextmanager
    def second(self) -> Iterator[AppServerConnection]:
        """Another server on the same home, while the first one runs."""
        service = AppServerService(self.settings, self.directory)
        try:
            yield service.connection()
        finally:
            service.stop()

    def release(self, event: str) -> None:
        """Let the steps go on that wait for this event."""
        if self.fake is not None:
            self.fake.release(event)
        if self.model is not None:
            self.model.event(event).set()

    def workspace(self, name: str = "") -> Path:
        """A fresh directory for a thread."""
        path = self.directory / "work" / (name or secrets.token_hex(4))
        path.mkdir(parents=True, exist_ok=True)
        return path.resolve()

    def wanted(self, **changes: Any) -> ThreadSettings:
        """Thread settings, in a fresh directory unless `cwd` is given."""
        base = ThreadSettings(
            cwd=str(changes.pop("cwd", None) or self.workspace()),
            model=MODEL,
            effort="high",
            sandbox="workspace-write",
            instructions="Do as the script says.",
            source=f"crw:r1/{new_call()}/1",
        )
        return replace(base, **changes)

    def thread(self, **changes: Any) -> Thread:
        """A new thread."""
        return self.connection.threads.start(self.wanted(**changes))

    def request(self, *steps: Mapping[str, Any], **changes: Any) -> TurnRequest:
        """A turn whose prompt carries the steps of its model."""
        operation = changes.pop("operation", None) or turn_operation(new_call(), 1)
        request = TurnRequest(operation, secrets.token_hex(4), prompt_of(*steps), MODEL, "high")
        return replace(request, **changes)

    def run(self, thread: Thread, *steps: Mapping[str, Any], **changes: Any) -> TurnEnd:
        """One turn to its end."""
        turns = self.connection.turns
        with turns.cursor(thread.id) as cursor:
            turns.start(cursor, self.request(*steps, **changes))
            end = cursor.wait(TURN_SECONDS)
        assert end is not None, "the turn did not end in time"
        return end

    def read(self, end: TurnEnd) -> FullTurn:
        """The turn read back from the host."""
        found = self.connection.turns.read_full(end.thread_id, end.turn_id)
        assert found is not None, "the turn is on the host"
        return found

    def model_requests(self) -> int:
        """How often the model was asked for anything."""
        asked = self.fake.model_requests() if self.fake is not None else []
        return len(self.model.requests() if self.model is not None else asked)

    def model_asked(self, operation: str) -> int:
        """How often the model was asked with this operation in the newest input: the witness of what ran."""
        if self.fake is not None:
            return sum(operation in str(line["texts"]) for line in self.fake.model_requests())
        assert self.model is not None, "a real host has a scripted model"
        return sum(operation in str(request["body"].get("input")) for request in self.model.requests())


def new_call() -> str:
    """A call id of its own for each send."""
    return f"c{next(_calls):024d}".translate(str.maketrans("0189", "abcd"))


def prompt_of(*steps: Mapping[str, Any]) -> str:
    """A prompt in which the steps of its model stand."""
    return "[[steps:" + json.dumps(list(steps)) + "]]"


def final(text: str) -> dict[str, Any]:
    """A step that ends with this answer."""
    return {"out": [{"msg": text, "phase": "final_answer"}]}

"""The host's side of a cell: the fake with its log, or a real App Server whose model's provider keeps the log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from deploy.demo.model_script import item_text
from deploy.demo.scripted_model import ScriptedModel, provider_config
from shared.model.operation import marker_line, read_marker
from shared.model.roles import Role, default_sandbox
from tests.drill.invariants import Asked, Frame
from tests.fakehost.install import install

MODEL = "scripted"
# The host has no such model: a role that asks for it is refused.
ABSENT_MODEL = "absent"
ROLES = {
    name: Role(name, model, "low", default_sandbox(name), "")
    for name, model in (("executor", MODEL), ("reviewer", MODEL), ("qa", ABSENT_MODEL))
}


class Side(Protocol):
    """A host's App Server, as a cell configures it and reads its witness."""

    def settings(self) -> dict[str, Any]:
        """Settings of the worker."""
        ...

    def strike(self, *faults: dict[str, Any]) -> None:
        """Faults from now on; none lifts them."""
        ...

    def frames(self) -> list[Frame]:
        """The requests that arrived, where the host tells."""
        ...

    def asked(self) -> list[Asked]:
        """What the model was asked."""
        ...

    def close(self) -> None:
        """The cell is over."""
        ...


class FakeSide:
    """The fake host: its requests and its model's inputs are on disk."""

    def __init__(self, directory: Path) -> None:
        self.fake = install(directory)

    def settings(self) -> dict[str, Any]:
        return {
            "codex__bin": self.fake.program,
            "codex__config": json.dumps({"model_provider": "scripted"}),
            "codex__models": json.dumps([MODEL]),
            "codex__request_timeout_seconds": 5,
        }

    def strike(self, *faults: dict[str, Any]) -> None:
        self.fake.write_faults(*faults)

    def frames(self) -> list[Frame]:
        return [
            Frame(line["method"], line.get("params") or {}, line["at"])
            for line in self.fake.requests()
            if "method" in line
        ]

    def asked(self) -> list[Asked]:
        inputs = ((line["turn"], line["texts"][-1]["content"]) for line in self.fake.model_requests() if line["texts"])
        return list(_asked(inputs))

    def close(self) -> None:
        self.fake.write_faults()


class RealSide:
    """The real App Server; its model's provider writes down what it is asked."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "model.jsonl"
        self._model = ScriptedModel(log=self._log).start()

    def settings(self) -> dict[str, Any]:
        return {
            "codex__config": json.dumps(provider_config(self._model.base_url, model=MODEL)),
            "codex__models": json.dumps([MODEL]),
        }

    def strike(self, *faults: dict[str, Any]) -> None:
        assert not faults, "a real host does not fail on demand"

    def frames(self) -> list[Frame]:
        return []

    def asked(self) -> list[Asked]:
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
        inputs = []
        for record in map(json.loads, lines):
            users = [item for item in record["body"].get("input") or [] if item.get("role") == "user"]
            if users:
                inputs.append((record["turn"], item_text(users[-1])))
        return list(_asked(inputs))

    def close(self) -> None:
        self._model.stop()


def _asked(inputs: Iterable[tuple[str, str]]) -> Iterable[Asked]:
    for turn, text in inputs:
        operation = read_marker(None, text)
        if operation is not None:
            yield Asked(operation, turn, text.removeprefix(marker_line(operation)))


def env_settings(side: Side, **more: Any) -> Mapping[str, Any]:
    """A worker's settings on this side."""
    return {**side.settings(), **more}

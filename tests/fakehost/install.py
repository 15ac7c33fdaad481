"""How a test gets a fake host: an executable for `codex.bin`, and readers of its logs."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class FakeHost:
    """Shape: `program` for `codex.bin`; `state` the directory the package's docstring describes."""

    program: Path
    state: Path

    def write_scripts(self, scripts: dict[str, Any]) -> None:
        """The named scripts from now on."""
        _replace(self.state / "scripts.json", scripts)

    def write_faults(self, *faults: dict[str, Any]) -> None:
        """The faults from now on; counts of what was seen go on."""
        _replace(self.state / "faults.json", list(faults))

    def release(self, event: str) -> None:
        """Let the steps go on that wait for this event."""
        (self.state / "events" / event).touch()

    def kill(self, cut_as: str = "interrupted") -> None:
        """End the newest process at once; the turns it ran read as `cut_as`, a status, from then on."""
        started = [line for line in _read(self.state / "requests.jsonl") if line.get("event") == "start"][-1]
        process = psutil.Process(started["pid"])
        process.kill()
        process.wait(5)
        for file in (Path(started["home"]) / "sessions").glob("*.json"):
            thread = json.loads(file.read_text())
            cut = [turn for turn in thread["turns"] if turn["status"] == "inProgress"]
            for turn in cut:
                turn["status"] = cut_as
            if cut:
                _replace(file, thread)

    def requests(self, method: str | None = None) -> list[dict[str, Any]]:
        """What came in, in order, over all processes of this fake; of one method or all."""
        return [line for line in _read(self.state / "requests.jsonl") if method in (None, line.get("method"))]

    def model_requests(self) -> list[dict[str, Any]]:
        """What the model was asked, in order."""
        return _read(self.state / "turns.jsonl")


def install(directory: Path) -> FakeHost:
    """Make a fake host whose state and executable are in `directory`."""
    state = directory / "fakehost"
    (state / "events").mkdir(parents=True, exist_ok=True)
    program = state / "codex"
    call = shlex.join([sys.executable, "-m", "tests.fakehost", "--state", str(state)])
    program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(_ROOT))} exec {call} "$@"\n')
    program.chmod(0o755)
    return FakeHost(program, state)


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        # A line that a kill cut short is no request that was taken.
        return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    except FileNotFoundError:
        return []


def _replace(file: Path, value: Any) -> None:
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(value))
    partial.replace(file)

"""`crw` as a user runs it, in this process: settings from a file, a repository, a database, a broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.embedded import Valkey
from scheduler.cli import main as program
from shared.journal.append import JournalWriter
from shared.journal.database import Database
from tests.journal_farm import Farm as JournalFarm
from tests.repositories import git, write_files

SETTINGS = """
poll_seconds = 0.2
[roles.executor]
model = "m"
effort = "low"
"""
SCRIPT = """\
async def main(flow, args):
    build = await flow.agent("do it", role="executor", node="core")
    return build.require()
"""


@dataclass(frozen=True)
class Said:
    """What a command said. Shape: `records` are its output's lines as JSON."""

    status: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Crw = Callable[..., Said]


@pytest.fixture
def place(tmp_path: Path, fresh_database: str, valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a script and a repository, and an environment in which `crw` finds its services."""
    write_files(tmp_path, {"crw.toml": SETTINGS, "flow.py": SCRIPT})
    repository = tmp_path / "repo"
    repository.mkdir()
    git(repository, "init", "-q")
    write_files(repository, {"a.txt": "a\n"})
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "first")
    for name, value in {
        "CRW_CONFIG": tmp_path / "crw.toml",
        "CRW_DATABASE_URL": fresh_database,
        "CRW_BROKER_URL": valkey.url,
        "CRW_STATE_DIR": tmp_path / "state",
        "CRW_MIN_FREE_BYTES": 0,
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def crw(place: Path, capsys: pytest.CaptureFixture[str]) -> Crw:
    """Run a command line."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        status = program.run(list(arguments))
        said = capsys.readouterr()
        return Said(status, said.out, said.err)

    return run


@pytest.fixture
def database(fresh_database: str) -> Iterator[Database]:
    made = Database(fresh_database, process="test")
    yield made
    made.close()


@pytest.fixture
def journal(database: Database) -> Iterator[JournalFarm]:
    """Schedulers and workers played by the test."""
    writer = JournalWriter(database, host="h1")
    yield JournalFarm(database, writer)
    writer.close()

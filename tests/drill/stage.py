"""What all cells share, and the farm of one of them."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
from sqlalchemy import text

from deploy.embedded import Postgres
from tests.databases import Databases
from tests.farm import Farm, Process
from tests.nursery import shared_nursery
from tests.repositories import git, make_bare_hub

LEASE_SECONDS = 1.0


class Stage:
    """One Postgres, a database and a hub to copy from. Safe from any thread once it is open."""

    def __init__(self, directory: Path, postgres: Postgres | None = None, databases: Databases | None = None) -> None:
        """Prepare; with a server and databases of the caller's, or with its own."""
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self._own = postgres is None
        self.postgres = postgres or Postgres(directory / "postgres")
        self._numbers = itertools.count()
        if self._own:
            self.postgres.start()
        self._databases = databases or Databases(self.postgres)
        self.hub = make_bare_hub(directory / "hub.git", {"README.md": "hello\n"})
        self.head = git(self.hub, "rev-parse", "main")
        shared_nursery()

    @contextmanager
    def farm(self, name: str) -> Iterator[CellFarm]:
        """A farm in a fresh directory, with a database and a hub of its own; its logs stay."""
        directory = self.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        database = f"cell_{next(self._numbers)}"
        url = self._databases.make(database)
        shutil.copytree(self.hub, directory / "hub.git")
        try:
            with closing(CellFarm(directory, self.postgres, url)) as farm:
                yield farm
        finally:
            self._databases.drop(database)

    def close(self) -> None:
        """Stop what is its own."""
        if self._own:
            self.postgres.close()


class CellFarm(Farm):
    """A farm of short leases. Its `processes` are all it has had, dead ones too."""

    look_seconds = 0.5

    def __init__(self, directory: Path, postgres: Postgres, url: str) -> None:
        timing = {"lease_seconds": LEASE_SECONDS, "sweep_seconds": 0.2, "poll_seconds": 0.2, "idle_claim_seconds": 0.5}
        super().__init__(directory, postgres, url, **timing)
        self.hub = directory / "hub.git"

    def cut(self, process: Process) -> None:
        """End the database connections of a process, as a broken network would."""
        name = process.name.replace("-", " ") if process.name.startswith("worker") else "scheduler"
        statement = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like :name"
        with self.database.statement() as connection:
            connection.execute(text(statement), {"name": f"crw-{name}%"})

    def is_buried(self, process: Process) -> bool:
        """Whether a sweep has declared this process dead."""
        table = "farm_workers" if process.name.startswith("worker") else "farm_schedulers"
        with self.database.statement() as connection:
            states = connection.execute(text(f"select state from {table} where pid = :pid"), {"pid": process.pid})
            return any(state == "dead" for (state,) in states)

    def unsettled(self, run_id: str) -> list[str]:
        """The run's calls whose claim has not ended."""
        statement = "select call_id from call_claims where run_id = :run and state not in ('ended', 'withdrawn')"
        with self.database.statement() as connection:
            return [call for (call,) in connection.execute(text(statement), {"run": run_id})]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        super().close()


def app_servers(process: Process) -> list[psutil.Process]:
    """The App Servers that a worker of the drill has started."""
    return app_servers_of(process.pid)


def app_servers_of(pid: int) -> list[psutil.Process]:
    """The App Servers that the worker with this pid has started."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in below if "app-server" in _command(process)]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []

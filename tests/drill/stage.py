"""What all cells share, and the farm of one of them."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg2
from sqlalchemy import text

from deploy.embedded import Postgres
from shared.journal.meta import upgrade
from tests.drill.nursery import Child, Nursery
from tests.farm import Farm
from tests.repositories import git, make_bare_hub

LEASE_SECONDS = 1.0
_TEMPLATE = "drill_template"
_SETTINGS_OF_TEMPLATE = f"""
    select unnest(s.setconfig) from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
    where d.datname = '{_TEMPLATE}' and s.setrole = 0"""


class Stage:
    """One Postgres, one nursery, a database and a hub to copy from. Safe from any thread once it is open."""

    def __init__(self, directory: Path, postgres: Postgres | None = None) -> None:
        """Prepare; with a server of the caller's, or one of its own."""
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self._own = postgres is None
        self.postgres = postgres or Postgres(directory / "postgres")
        self._numbers = itertools.count()
        self.nursery = Nursery()
        if self._own:
            self.postgres.start()
        self._sql(f"create database {_TEMPLATE}")
        upgrade(self.postgres.database_url(_TEMPLATE))
        found = self._sql(_SETTINGS_OF_TEMPLATE)
        self._settings = [f"{name} = '{value}'" for name, _, value in (text.partition("=") for (text,) in found)]
        self.hub = make_bare_hub(directory / "hub.git", {"README.md": "hello\n"})
        self.head = git(self.hub, "rev-parse", "main")

    @contextmanager
    def farm(self, name: str) -> Iterator[CellFarm]:
        """A farm in a fresh directory, with a database and a hub of its own; its logs stay."""
        directory = self.directory / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        database = f"cell_{next(self._numbers)}"
        self._sql(f"create database {database} template {_TEMPLATE}")
        # A template's settings are not copied; without its time-outs a frozen process keeps its locks for ever.
        for setting in self._settings:
            self._sql(f"alter database {database} set {setting}")
        shutil.copytree(self.hub, directory / "hub.git")
        try:
            with closing(CellFarm(directory, self, database)) as farm:
                yield farm
        finally:
            self._sql(f"drop database {database} with (force)")

    def close(self) -> None:
        """Stop what is shared."""
        self.nursery.close()
        self._sql(f"drop database {_TEMPLATE} with (force)")
        if self._own:
            self.postgres.close()

    def _sql(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(psycopg2.connect(host=str(self.postgres.sockets), user="postgres", dbname="postgres")) as server:
            server.autocommit = True
            cursor = server.cursor()
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []


class CellFarm(Farm):
    """A farm whose processes come from the nursery. Shape: `children` all of them, dead ones too."""

    def __init__(self, directory: Path, stage: Stage, database: str) -> None:
        url = stage.postgres.database_url(database)
        timing = {"lease_seconds": LEASE_SECONDS, "sweep_seconds": 0.2, "poll_seconds": 0.2, "idle_claim_seconds": 0.5}
        super().__init__(directory, stage.postgres, url, upgraded=True, **timing)
        self.children: list[Child] = []
        self._nursery = stage.nursery
        self.hub = directory / "hub.git"

    def fork(self, role: str, name: str, **settings: Any) -> Child:
        """A worker or a scheduler; `name` is its host's, or its own."""
        if role == "worker":
            settings = {"host_name": name, "state_dir": self.directory / f"state-{name}", "concurrency": 2, **settings}
        number = len(self.children)
        log = self.directory / f"{number}-{role}-{name}.log"
        child = self._nursery.fork(role, f"{role}-{name}", self.env(**settings), log)
        self.children.append(child)
        return child

    def cut(self, child: Child) -> None:
        """End the database connections of a process, as a broken network would."""
        with self.database.statement() as connection:
            connection.execute(
                text("select pg_terminate_backend(pid) from pg_stat_activity where application_name like :name"),
                {"name": f"crw-{child.name.replace('-', ' ') if child.name.startswith('worker') else 'scheduler'}%"},
            )

    def is_buried(self, child: Child) -> bool:
        """Whether a sweep has declared this process dead."""
        table = "farm_workers" if child.name.startswith("worker") else "farm_schedulers"
        with self.database.statement() as connection:
            states = connection.execute(text(f"select state from {table} where pid = :pid"), {"pid": child.pid})
            return any(state == "dead" for (state,) in states)

    def unsettled(self, run_id: str) -> list[str]:
        """The run's calls whose claim has not ended."""
        statement = "select call_id from call_claims where run_id = :run and state not in ('ended', 'withdrawn')"
        with self.database.statement() as connection:
            return [call for (call,) in connection.execute(text(statement), {"run": run_id})]

    def close(self) -> None:
        for child in self.children:
            child.close()
        super().close()


def app_servers(child: Child) -> list[psutil.Process]:
    """The App Servers that a worker of the drill has started."""
    return app_servers_of(child.pid)


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

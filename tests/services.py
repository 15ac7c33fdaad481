"""Real services for tests: one PostgreSQL and one Valkey a test session, a fresh database a test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deploy.embedded import Postgres, Valkey
from tests.databases import Databases, run_sql
from tests.farm import Farm

_numbers = itertools.count()


def fast_directory() -> Path | None:
    """Memory, where there is enough of it: tests kill processes, and what a power cut does to a disk is not tested."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 2 << 30 else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The session's PostgreSQL server, in memory if it can be: to drop a database waits a second for a disk."""
    with tempfile.TemporaryDirectory(prefix="crw-test-", dir=fast_directory()) as directory:
        os.chmod(directory, 0o755)  # the server may be another user's process
        with Postgres(Path(directory) / "postgres") as server:
            yield server


@pytest.fixture(scope="session")
def databases(postgres: Postgres) -> Databases:
    """The session's databases with the journal's schema."""
    return Databases(postgres)


@pytest.fixture
def empty_database(postgres: Postgres) -> Iterator[str]:
    """URL of a database without any table, dropped after the test."""
    name = f"t{os.getpid()}_{next(_numbers)}"
    run_sql(postgres, f"create database {name}")
    yield postgres.database_url(name)
    run_sql(postgres, f"drop database {name} with (force)")


@pytest.fixture
def fresh_database(databases: Databases) -> Iterator[str]:
    """URL of a database with the journal's schema and nothing in it, dropped after the test."""
    name = f"t{os.getpid()}_{next(_numbers)}"
    yield databases.make(name)
    databases.drop(name)


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """The session's Valkey server."""
    with Valkey(Path(tmp_path_factory.mktemp("valkey"))) as server:
        yield server


@pytest.fixture
def valkey(valkey_server: Valkey) -> Valkey:
    """The session's Valkey server, emptied."""
    valkey_server.client().flushall()
    return valkey_server


@pytest.fixture
def farm(tmp_path: Path, postgres: Postgres, fresh_database: str) -> Iterator[Farm]:
    """A farm without processes yet: `start_worker`, `start_scheduler`; a lease is 2 s."""
    with closing(Farm(tmp_path, postgres, fresh_database)) as running:
        yield running

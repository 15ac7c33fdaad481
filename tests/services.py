"""Real services for tests: one PostgreSQL and one Valkey a test session, a fresh database a test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from deploy.embedded import Postgres, Valkey
from shared.journal.meta import upgrade
from tests.farm import Farm

_numbers = itertools.count()


def run_sql(server: Postgres, statement: str) -> None:
    """One statement on the server's own database, outside any transaction."""
    with closing(psycopg2.connect(host=str(server.sockets), user="postgres", dbname="postgres")) as connection:
        connection.autocommit = True
        connection.cursor().execute(statement)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """The session's PostgreSQL server."""
    with Postgres(Path(tmp_path_factory.mktemp("postgres"))) as server:
        yield server


@pytest.fixture
def empty_database(postgres: Postgres) -> Iterator[str]:
    """URL of a database without any table, dropped after the test."""
    name = f"t{os.getpid()}_{next(_numbers)}"
    run_sql(postgres, f"create database {name}")
    yield postgres.database_url(name)
    run_sql(postgres, f"drop database {name} with (force)")


@pytest.fixture
def fresh_database(empty_database: str) -> str:
    """URL of a database with the journal's schema and nothing in it."""
    upgrade(empty_database)
    return empty_database


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
def farm(tmp_path: Path, postgres: Postgres, empty_database: str) -> Iterator[Farm]:
    """A farm without processes yet: `start_worker`, `start_scheduler`; a lease is 2 s."""
    with closing(Farm(tmp_path, postgres, empty_database)) as running:
        yield running

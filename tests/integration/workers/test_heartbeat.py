"""A heartbeat comes through whatever the worker's pool is busy with, and never waits for long itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shared.base.settings import Settings
from shared.journal.database import Database
from workers.claim import Hands
from workers.incarnation import Incarnation
from workers.state_dir import StateDirectory


@pytest.fixture
def database(fresh_database: str) -> Iterator[Database]:
    """A database behind a pool of one connection, with one more in need."""
    made = Database(fresh_database, process="test", pool_size=1)
    yield made
    made.close()


@pytest.fixture
def incarnation(database: Database, tmp_path: Path) -> Iterator[Incarnation]:
    """A registered worker that does not beat by itself."""
    settings = Settings(host_name="h1", min_free_bytes=0, lease_seconds=2)
    state = StateDirectory(tmp_path, "h1", 0)
    made = Incarnation(settings, state, Hands(), on_dead=lambda: None, on_orphan=lambda *_: None)
    made.register(database)
    yield made
    made.stop(database)
    state.close()


@pytest.mark.req("RULE46")
def test_a_worker_beats_while_its_pool_is_exhausted(incarnation: Incarnation, database: Database) -> None:
    with ExitStack() as busy:
        for _ in range(2):
            busy.enter_context(database.engine.connect())
            busy.enter_context(database.statement())
        assert incarnation.beat(database)
    with database.statement() as connection:
        beats = connection.exec_driver_sql("select beat from farm_workers").scalars().all()
    assert beats == [1]


@pytest.mark.req("RULE46")
def test_a_beat_that_hangs_gives_up_after_three_seconds(incarnation: Incarnation, database: Database) -> None:
    assert incarnation.beat(database)
    with incarnation._connection.cursor() as cursor:
        cursor.execute("show statement_timeout")
        assert cursor.fetchone() == ("3s",)

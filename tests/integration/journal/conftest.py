"""A migrated database for each test, and a small farm on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.journal.append import JournalWriter
from shared.journal.database import Database
from tests.journal_farm import Farm


@pytest.fixture
def database(fresh_database: str) -> Iterator[Database]:
    made = Database(fresh_database, process="test", pool_size=8)
    yield made
    made.close()


@pytest.fixture
def writer(database: Database) -> Iterator[JournalWriter]:
    made = JournalWriter(database, host="h1")
    yield made
    made.close()


@pytest.fixture
def farm(database: Database, writer: JournalWriter) -> Farm:
    return Farm(database, writer)

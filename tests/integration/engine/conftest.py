"""A scheduler's engine on real Postgres, with a hand in place of workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.journal.database import Database
from tests.integration.engine.hands import Field


@pytest.fixture
def field(fresh_database: str) -> Iterator[Field]:
    database = Database(fresh_database, process="test", pool_size=8)
    made = Field(database)
    yield made
    made.close()
    database.close()

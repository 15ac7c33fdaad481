"""A farm in this process, and `crw` beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deploy.embedded import Valkey
from tests.integration.cli.conftest import crw, place
from tests.integration.resume.house import House

__all__ = ["crw", "place"]


@pytest.fixture
def house(fresh_database: str, valkey: Valkey, tmp_path: Path) -> Iterator[House]:
    """The farm; `crw` finds its services."""
    (tmp_path / "house").mkdir()
    with closing(House(fresh_database, valkey, tmp_path / "house")) as made:
        yield made

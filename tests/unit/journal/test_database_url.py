"""An address that is none is refused before anybody is asked."""

from __future__ import annotations

import pytest

from shared.base.errors import SettingsError
from shared.journal.database import Database


@pytest.mark.parametrize(
    "url", ["foo", "mysql://db/crw", "postgresql+asyncpg://db/crw", "postgresql+psycopg2://db:port/crw"]
)
def test_an_address_that_is_none_is_refused_with_one_that_is(url: str) -> None:
    with pytest.raises(SettingsError, match="write postgresql\\+psycopg2://user@host/database"):
        Database(url, process="test")

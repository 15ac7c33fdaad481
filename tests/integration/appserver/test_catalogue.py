"""The built-in provider's pairs, against the real server's own catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.base.errors import Refused
from shared.base.settings import CodexSettings, Settings
from workers.appserver import AppServerConnection, AppServerService

pytestmark = pytest.mark.real


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[AppServerConnection]:
    """A real server without a configured provider and without a login."""
    service = AppServerService(Settings(codex=CodexSettings()), tmp_path)
    yield service.connection()
    service.stop()


@pytest.mark.req("K22", "T49")
def test_a_pair_of_the_built_in_provider_must_be_in_the_catalogue(connection: AppServerConnection) -> None:
    model, efforts = next(iter(connection._catalogue().items()))
    connection.check_pair(model, efforts[0])
    for pair, told in (((f"{model}-x", efforts[0]), "no model"), ((model, "bananas"), "no effort")):
        with pytest.raises(Refused, match=told) as caught:
            connection.check_pair(*pair)
        assert caught.value.reason == "pair_refused"


@pytest.mark.req("C01")
def test_a_fresh_home_has_nobody_logged_in(connection: AppServerConnection) -> None:
    assert connection.account() is None

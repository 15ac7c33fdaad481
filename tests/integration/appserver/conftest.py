"""A fake host with a service on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from shared.base.settings import CodexSettings, Settings
from tests.fakehost.install import FakeHost, install
from workers.appserver import AppServerService

MakeService = Callable[..., AppServerService]


@pytest.fixture
def fake(tmp_path: Path) -> FakeHost:
    """A fake host, not running yet."""
    return install(tmp_path)


@pytest.fixture
def make_service(fake: FakeHost, tmp_path: Path) -> Iterator[MakeService]:
    """Makes services on the fake host; all are stopped at the end."""
    made: list[AppServerService] = []

    def make(models: Sequence[str] = (), timeout_seconds: float = 5.0, **options: Any) -> AppServerService:
        codex = CodexSettings(
            bin=str(fake.program),
            config={"model_provider": "scripted"},
            models=list(models),
            request_timeout_seconds=timeout_seconds,
        )
        made.append(AppServerService(Settings(codex=codex), tmp_path / "state", **options))
        return made[-1]

    yield make
    for service in made:
        service.stop()

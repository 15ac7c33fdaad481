"""A farm that runs on a state directory is found by other terminals, and only while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shared.base.errors import UsageError
from shared.base.running_farm import RunningFarm, load_running_farm
from shared.base.settings import load_settings

NOTE = {"database_url": "postgresql+psycopg2:///of_up", "broker_url": "redis+socket:///of_up", "concurrency": 7}


@pytest.fixture(autouse=True)
def only_this_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CRW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CRW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_settings_come_from_the_running_farm_when_nothing_else_is_configured(tmp_path: Path) -> None:
    farm = RunningFarm(tmp_path / "state")
    assert load_settings().database_url is None
    with farm.announced(NOTE):
        settings = load_settings()
        assert (settings.database_url, settings.broker_url) == (NOTE["database_url"], NOTE["broker_url"])
        assert settings.concurrency == 7
    assert load_settings().database_url is None
    farm.close()


def test_the_file_stands_over_the_running_farm_setting_by_setting(tmp_path: Path) -> None:
    (tmp_path / "crw.toml").write_text("concurrency = 3\n[roles.executor]\neffort = 'high'\n")
    farm = RunningFarm(tmp_path / "state")
    with farm.announced({**NOTE, "roles": {"executor": {"model": "scripted", "effort": "low"}}}):
        settings = load_settings()
    farm.close()
    assert settings.concurrency == 3
    assert (settings.roles["executor"].model, settings.roles["executor"].effort) == ("scripted", "high")


@pytest.mark.parametrize("name", ["CRW_DATABASE_URL", "CRW_BROKER_URL"])
def test_a_configured_farm_is_never_mixed_with_a_running_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm = RunningFarm(tmp_path / "state")
    monkeypatch.setenv(name, "postgresql+psycopg2:///mine" if "DATABASE" in name else "redis://mine")
    with farm.announced(NOTE):
        settings = load_settings()
    farm.close()
    assert [settings.database_url, settings.broker_url].count(None) == 1


def test_a_killed_farm_leaves_a_note_that_nobody_believes(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from shared.base.running_farm import RunningFarm\n"
        "with RunningFarm(Path(sys.argv[1])).announced({'concurrency': 9}): print('up', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "state")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    assert load_running_farm(tmp_path / "state") == {"concurrency": 9}
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert (tmp_path / "state" / "up.json").exists()
    assert load_running_farm(tmp_path / "state") == {}


def test_a_second_farm_on_one_directory_is_refused(tmp_path: Path) -> None:
    farm = RunningFarm(tmp_path / "state")
    with pytest.raises(UsageError, match="already runs"):
        RunningFarm(tmp_path / "state")
    farm.close()
    RunningFarm(tmp_path / "state").close()

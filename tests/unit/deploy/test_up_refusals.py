"""What `crw up` refuses before it starts anything, each in one sentence that names the mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.up import run_up
from shared.base.errors import UsageError
from shared.base.running_farm import RunningFarm
from shared.base.settings import Settings


def _settings(state_dir: Path, **values: str) -> Settings:
    return Settings(state_dir=state_dir, **values)


@pytest.mark.parametrize("name", ["database_url", "broker_url"])
def test_a_configured_farm_is_not_replaced_by_a_farm_of_its_own(name: str, tmp_path: Path) -> None:
    url = "postgresql+psycopg2://u:secret@h/d" if name == "database_url" else "redis://:secret@h/0"
    with pytest.raises(UsageError, match=f"{name} is configured") as refused:
        run_up(_settings(tmp_path / "state", **{name: url}))
    assert "secret" not in str(refused.value) and "crw worker" in str(refused.value)
    # The refusal gave the directory back.
    RunningFarm(tmp_path / "state").close()


def test_a_second_farm_on_one_state_directory_is_refused(tmp_path: Path) -> None:
    farm = RunningFarm(tmp_path)
    with pytest.raises(UsageError, match="already runs"):
        run_up(_settings(tmp_path))
    farm.close()


def test_a_state_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="CRW_STATE_DIR"):
        run_up(_settings(tmp_path / "file" / "state"))


@pytest.mark.req("K71", "RULE6")
def test_a_disk_with_too_little_room_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="MiB free and needs"):
        run_up(Settings(state_dir=tmp_path / "not" / "yet", min_free_bytes=1 << 60))
    assert not (tmp_path / "not").exists()

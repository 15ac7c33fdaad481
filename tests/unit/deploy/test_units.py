"""The systemd units: `systemd-analyze verify` where it is installed, and the rules the farm needs of them."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from shared.base.settings import Settings

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"
NAMES = ("crw-scheduler.service", "crw-worker@.service", "crw-flower.service")


class _Unit(configparser.RawConfigParser):
    """A unit file; a key that stands several times keeps all its values."""

    def __init__(self, path: Path) -> None:
        super().__init__(strict=False, delimiters=("=",), comment_prefixes=("#", ";"), interpolation=None)
        self.repeated: dict[str, list[str]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            key, found, value = line.partition("=")
            if found and not line.startswith("#"):
                self.repeated.setdefault(key, []).append(value)
        self.read(path, encoding="utf-8")

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def test_the_folder_holds_these_units_and_no_other() -> None:
    assert sorted(path.name for path in UNITS.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_starts_its_own_command_as_a_user_and_starts_it_again(name: str) -> None:
    unit = _Unit(UNITS / name)
    service = unit["Service"]
    command = name.removeprefix("crw-").split(".")[0].rstrip("@")
    assert service["ExecStart"].split()[1:] == [command]
    assert service["User"] == "crw" and service["Restart"] == "always"
    assert service["StateDirectoryMode"] == "0700"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


@pytest.mark.parametrize("name", NAMES)
def test_secrets_come_from_files_and_stand_in_no_unit(name: str) -> None:
    unit = _Unit(UNITS / name)
    assert "/etc/crw/farm.env" in unit.repeated["EnvironmentFile"]
    for value in unit.repeated["Environment"]:
        assert "URL" not in value and "PASSWORD" not in value


def test_a_worker_unit_is_one_host_with_a_directory_of_its_own() -> None:
    unit = _Unit(UNITS / "crw-worker@.service")
    assert "CRW_HOST_NAME=%i" in unit.repeated["Environment"]
    assert "CRW_STATE_DIR=/var/lib/crw/%i" in unit.repeated["Environment"]
    assert unit["Service"]["StateDirectory"] == "crw/%i"


@pytest.mark.req("RULE34")
def test_a_worker_is_given_more_time_to_stop_than_its_drain_takes() -> None:
    service = _Unit(UNITS / "crw-worker@.service")["Service"]
    assert service["KillMode"] == "mixed"
    assert float(service["TimeoutStopSec"]) > Settings.model_fields["drain_seconds"].default + 10


@pytest.mark.parametrize("name", NAMES)
def test_systemd_itself_finds_no_fault_in_the_units(name: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        # The rules above hold everywhere; systemd's own opinion is there to be had only on its own systems.
        assert _Unit(UNITS / name).sections() == ["Unit", "Service", "Install"]
        return
    copy = tmp_path / name
    text = (UNITS / name).read_text(encoding="utf-8").replace("/opt/crw-farm/.venv/bin/crw", "/bin/true")
    copy.write_text(text.replace("file:///opt/crw-farm/README.md", "https://example.org/"), encoding="utf-8")
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

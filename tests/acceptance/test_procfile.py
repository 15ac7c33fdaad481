"""The Procfile under honcho: scheduler, worker and Flower come up together and end together."""

from __future__ import annotations

import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest

from deploy.health import scheduler_is_up, worker_is_up
from tests.acceptance.programs import ROOT, assert_nothing_runs, started
from tests.farm import Farm
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


def test_honcho_runs_the_three_processes_and_a_signal_ends_them_in_order(farm: Farm, tmp_path: Path) -> None:
    # The Procfile says `crw`, as an installed program.
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "crw").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m scheduler.cli.main "$@"\n')
    (programs / "crw").chmod(0o755)
    shutil.copy(ROOT / "Procfile", tmp_path / "Procfile")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = farm.env(
        state_dir=tmp_path / "state-honcho", host_name="honcho", flower__port=port, flower__password="sesame"
    )
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    log = tmp_path / "honcho.log"
    argv = (sys.executable, "-m", "honcho", "--no-colour", "start")
    with started(argv, environment, tmp_path, log) as honcho:

        def is_up() -> bool:
            assert honcho.poll() is None, log.read_text()[-3000:]
            return scheduler_is_up(farm.database) and worker_is_up(farm.database, "honcho")

        wait_until(is_up, 60, "scheduler and worker to hold their leases")
        honcho.send_signal(signal.SIGTERM)
        # Honcho kills what needs five seconds or more.
        honcho.wait(10)
        text = log.read_text()
    assert "sending SIGKILL" not in text
    assert not worker_is_up(farm.database, "honcho") and not scheduler_is_up(farm.database)
    assert_nothing_runs(tmp_path / "state-honcho")

"""The health check of containers: by the lease in the journal, not by the process's existence."""

from __future__ import annotations

import signal
import subprocess
import sys

from shared.journal.roster import list_hosts
from tests.farm import Farm
from tests.waiting import wait_until


def _health(farm: Farm, what: str, host: str = "h1") -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.health", what], env=farm.env(host_name=host), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_worker_is_well_while_it_renews_its_lease(farm: Farm) -> None:
    worker = farm.start_worker("h1")
    farm.wait_up(worker)
    assert _health(farm, "worker") == (0, "")
    assert _health(farm, "worker", host="h2")[0] == 1
    worker.signal(signal.SIGSTOP)
    wait_until(
        lambda: not any(host.alive for host in list_hosts(farm.database)), 15, "the frozen worker's lease to end"
    )
    status, said = _health(farm, "worker")
    assert status == 1 and "no worker of this machine holds a lease" in said


def test_a_scheduler_is_well_while_it_renews_its_lease_and_a_wrong_question_says_so(farm: Farm) -> None:
    assert _health(farm, "scheduler")[0] == 1
    farm.wait_up(farm.start_scheduler())
    assert _health(farm, "scheduler") == (0, "")
    assert "worker or scheduler" in _health(farm, "flower")[1]

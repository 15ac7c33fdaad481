"""A database that takes no writes for a while, as one that fails over does: the farm waits, and goes on."""

from __future__ import annotations

import time

import pytest

from tests.acceptance.farm.flows import LANES
from tests.acceptance.farm.test_kills import check_lanes
from tests.farm import Farm
from tests.services import run_sql
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(150)

# Many leases, and longer than a worker bears a lease that is not renewed.
READ_ONLY_SECONDS = 30.0


def set_read_only(farm: Farm, value: str) -> None:
    run_sql(farm.postgres, f"alter system set default_transaction_read_only = {value}")
    run_sql(farm.postgres, "select pg_reload_conf()")


@pytest.mark.slow
@pytest.mark.req("RULE11", "RULE29")
def test_a_database_that_is_read_only_for_half_a_minute_ends_nobody_and_changes_nothing(farm: Farm) -> None:
    worker, scheduler = farm.start_worker("h1"), farm.start_scheduler()
    farm.wait_up(worker, scheduler)
    run_id = farm.submit(LANES, {"lanes": 2, "steps": 8, "seconds": 0.2})
    wait_until(lambda: farm.call_rows(run_id, "completed"), 20, "progress")
    set_read_only(farm, "on")
    try:
        over_at = time.monotonic() + READ_ONLY_SECONDS
        # What was on its way commits; then nothing does.
        before = None
        while time.monotonic() < over_at:
            rows = len(farm.rows(run_id))
            settled = time.monotonic() > over_at - READ_ONLY_SECONDS + 3
            assert not settled or before in (None, rows), "a row was written into a read-only database"
            before = rows if settled else None
            time.sleep(0.5)
    finally:
        set_read_only(farm, "off")
    check_lanes(farm, run_id, 2, 8)
    assert worker.alive and scheduler.alive, "who cannot write waits; only a fault of its own ends a process"
    assert not worker.said("declared_dead") and not scheduler.said("lease_lost")
    assert farm.database.fetch("select max(crashes) from call_claims", {}) == [(0,)]


def test_a_process_that_starts_meanwhile_waits_for_writes(farm: Farm) -> None:
    set_read_only(farm, "on")
    try:
        worker = farm.start_worker("h1")
        wait_until(lambda: worker.said("takes no writes"), 30, "the worker to say what it waits for")
        assert worker.alive
    finally:
        set_read_only(farm, "off")
    farm.wait_up(worker, deadline_seconds=30)

"""A scheduler's lease lives as long as its loop does, and its loss is told once."""

import threading

import pytest
from sqlalchemy import text

from scheduler import lease as lease_module
from scheduler.lease import Lease
from shared.journal import hosts
from shared.journal.database import Database
from tests.waiting import wait_until

LEASE_SECONDS = 0.5


@pytest.fixture
def database(fresh_database: str):
    opened = Database(fresh_database, process="test")
    yield opened
    opened.close()


def scheduler_beats(database: Database) -> int:
    with database.transaction() as connection:
        return int(connection.execute(text("select beat from farm_schedulers")).scalar_one())


@pytest.mark.req("RULE24")
def test_a_loop_that_stands_still_does_not_keep_its_lease(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease_module, "LOOP_SILENCE_SECONDS", 0.6)
    lost = threading.Event()
    lease = Lease(database, LEASE_SECONDS, lost.set)
    lease.start()

    def tick_until_renewed():
        lease.tick()
        return scheduler_beats(database) >= 2

    wait_until(tick_until_renewed, 5, "beats under a living loop")
    # From here on the loop does not tick.
    suspects = wait_until(lambda: hosts.suspects_schedulers(database), 5, "the lease to run out")
    assert hosts.bury_scheduler(database, lease.scheduler_id, suspects[0].beat)
    assert not lost.is_set()

    def tick_until_lost():
        lease.tick()
        return lost.is_set()

    wait_until(tick_until_lost, 5, "the loss to be told")
    lease.stop()


@pytest.mark.req("RULE24", "RULE29")
def test_a_loop_that_does_not_come_back_is_told_once_its_lease_has_run_out(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lease_module, "LOOP_SILENCE_SECONDS", 0.3)
    blocked = threading.Event()
    lease = Lease(database, LEASE_SECONDS, lambda: None, blocked.set)
    lease.tick()
    lease.start()
    wait_until(blocked.is_set, 5, "the silence of the loop to be told")
    assert hosts.suspects_schedulers(database), "it was told before the lease had run out"
    lease.stop()

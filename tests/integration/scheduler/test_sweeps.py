"""The sweeps on a real journal: who is silent for a lease of ours is buried, an outage buries nobody."""

import time
import uuid
from contextlib import closing

import pytest
from sqlalchemy import text

from scheduler.sweeps.dead_schedulers import BurySchedulers
from scheduler.sweeps.publish import PublishDue
from scheduler.sweeps.rescue import RescueCalls
from scheduler.sweeps.sweep import SweepLoop
from shared.base.errors import StoreUnavailable
from shared.broker.publish import Publisher
from shared.journal import hosts, roster
from shared.journal.database import Database
from tests.farm import Farm
from tests.integration.workers.scripted_run import ScriptedRun
from tests.waiting import wait_until

LEASE_SECONDS = 0.3


@pytest.fixture
def database(fresh_database: str):
    opened = Database(fresh_database, process="test")
    yield opened
    opened.close()


def register_worker(database: Database, host: str) -> str:
    worker_id = str(uuid.uuid4())
    identity = hosts.Identity(
        worker_id=worker_id, host=host, host_id=host, home_id=host, pid=1, pid_started="1", boot_id="b",
        machine="m", labels=(), slots=1, version=1, codex_version=None, account=None, lease_seconds=LEASE_SECONDS,
    )  # fmt: skip
    hosts.register(database, identity)
    return worker_id


def states(database: Database) -> dict[str, str | None]:
    return {host.host: host.worker_state for host in roster.list_hosts(database)}


@pytest.mark.req("RULE11")
def test_a_silent_worker_is_buried_a_lease_after_its_lease_ran_out(database: Database):
    register_worker(database, "h1")
    rescue = RescueCalls(database, LEASE_SECONDS)
    wait_until(lambda: hosts.suspects(database), 5, "the lease to run out")
    rescue.pass_once()
    assert states(database) == {"h1": "up"}, "one look is a suspicion"
    looked_at = time.monotonic()
    wait_until(lambda: time.monotonic() > looked_at + LEASE_SECONDS, 5, "a lease of ours")
    rescue.pass_once()
    assert states(database) == {"h1": "dead"}


@pytest.mark.req("RULE11")
def test_many_silent_workers_are_buried_one_a_pass(database: Database):
    for number in range(3):
        register_worker(database, f"h{number}")
    rescue = RescueCalls(database, LEASE_SECONDS)
    wait_until(lambda: len(hosts.suspects(database)) == 3, 5, "the leases to run out")
    rescue.pass_once()
    looked_at = time.monotonic()
    wait_until(lambda: time.monotonic() > looked_at + LEASE_SECONDS, 5, "a lease of ours")
    rescue.pass_once()
    assert sorted(states(database).values(), key=str) == ["dead", "up", "up"]
    rescue.pass_once()
    assert sorted(states(database).values(), key=str) == ["dead", "dead", "up"]


def test_a_silent_scheduler_is_buried(database: Database):
    scheduler_id = str(uuid.uuid4())
    hosts.register_scheduler(database, scheduler_id, LEASE_SECONDS, machine="m", pid=1, version=1)
    bury = BurySchedulers(database)

    def pass_until_buried():
        return bury.pass_once()

    assert wait_until(pass_until_buried, 5, "the burial") == 1
    assert bury.pass_once() == 0


class Failing:
    """A sweep whose database is away at first."""

    name = "failing"

    def __init__(self) -> None:
        self.passes = self.forgotten = 0

    def pass_once(self) -> int:
        self.passes += 1
        if self.passes < 3:
            raise StoreUnavailable("away")
        return 1

    def forget(self) -> None:
        self.forgotten += 1


@pytest.mark.req("RULE11")
def test_a_failed_pass_forgets_what_was_suspected_and_the_loop_goes_on():
    sweep, woken = Failing(), []
    loop = SweepLoop(sweep, 0.01, after=lambda: woken.append(1))
    loop.start()
    wait_until(lambda: woken, 5, "a pass that did something")
    loop.stop()
    loop.join(5)
    assert sweep.forgotten == 2


@pytest.mark.req("RULE36")
def test_what_is_due_is_published_but_not_on_top_of_a_full_queue(farm: Farm):
    with closing(ScriptedRun(farm)) as run, closing(Publisher(farm.valkey.url)) as publisher:
        for _ in range(3):
            run.open(publish=False)
        with farm.database.transaction() as connection:
            connection.execute(text("update outbox set not_before = now()"))
        sweep = PublishDue(farm.database, publisher)
        assert sweep.pass_once() == 3
        assert publisher.backlog("farm") == 3
        assert sweep.pass_once() == 0, "published calls are not due again at once"
        farm.valkey.client().lpush("farm", "one more message than calls")
        with farm.database.transaction() as connection:
            connection.execute(text("update outbox set not_before = now()"))
        assert sweep.pass_once() == 0
        assert publisher.backlog("farm") == 4

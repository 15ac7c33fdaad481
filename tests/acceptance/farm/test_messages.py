"""Messages are hints: lost, repeated, misdelivered or delayed, they change no outcome."""

import time

import pytest

from shared.broker.publish import Publisher
from shared.journal.outbox import Publication
from tests.acceptance.farm.flows import LANES, WIDE
from tests.acceptance.farm.test_kills import check_lanes
from tests.farm import LEASE_SECONDS, Farm
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(150)


@pytest.mark.req("RULE36")
def test_a_broker_that_is_flushed_again_and_again_changes_nothing(farm: Farm):
    farm.wait_up(farm.start_scheduler(), farm.start_worker("h1"))
    run_id = farm.submit(LANES, {"lanes": 3, "steps": 5, "seconds": 0.05})

    def flush_until_finished():
        farm.valkey.client().flushall()
        return farm.finished(run_id)

    wait_until(flush_until_finished, 60, "the run to finish under flushes")
    check_lanes(farm, run_id, 3, 5)


def test_a_broker_that_is_killed_and_comes_back_changes_nothing(farm: Farm):
    worker, scheduler = farm.start_worker("h1"), farm.start_scheduler()
    farm.wait_up(worker, scheduler)
    run_id = farm.submit(LANES, {"lanes": 3, "steps": 12, "seconds": 0.2})
    wait_until(lambda: farm.call_rows(run_id, "completed"), 20, "progress")
    farm.valkey.kill()
    # On a busy machine this process may come back when nearly all is done: more than all is nothing to wait for.
    enough = min(len(farm.call_rows(run_id, "completed")) + 4, 3 * 12)
    # Workers with free slots ask the journal: work goes on while the broker is away.
    wait_until(lambda: len(farm.call_rows(run_id, "completed")) >= enough, 40, "progress without a broker")
    farm.valkey.start()
    check_lanes(farm, run_id, 3, 12)
    assert worker.alive and scheduler.alive


def test_a_message_delivered_twice_is_worked_once(farm: Farm):
    farm.wait_up(farm.start_scheduler(), farm.start_worker("h1"), farm.start_worker("h2"))
    publisher = Publisher(farm.valkey.url)
    run_id = farm.submit(WIDE, {"count": 6, "seconds": 0.5})
    prepared = wait_until(lambda: farm.call_rows(run_id, "prepared"), 20, "open calls")
    for row in prepared:
        again = Publication(row.call_id, row.request_id, 1, "farm", run_id, row.kind, None, None, None)
        publisher.send([again, again, again])
    assert farm.wait_finished(run_id).data["result"] == 15
    farm.check_rows(run_id)
    publisher.close()


@pytest.mark.req("RULE12")
def test_a_message_on_the_wrong_host_s_queue_is_dropped_and_the_right_host_gets_its_call(farm: Farm):
    farm.wait_up(farm.start_scheduler(), farm.start_worker("h1"), farm.start_worker("h2"))
    publisher = Publisher(farm.valkey.url)
    run_id = farm.submit(LANES, {"lanes": 2, "steps": 6, "seconds": 0.1, "nodes": True})

    def misdeliver():
        for row in farm.call_rows(run_id, "prepared"):
            for host in ("h1", "h2"):
                queue = f"host.{host}"
                publisher.send([Publication(row.call_id, row.request_id, 1, queue, run_id, row.kind, None, None, None)])
        return farm.finished(run_id)

    wait_until(misdeliver, 60, "the run to finish")
    check_lanes(farm, run_id, 2, 6)
    for lane in ("lane0", "lane1"):
        hosts = {row.host for row in farm.call_rows(run_id, "completed") if row.node_id == lane}
        assert len(hosts) == 1, "a node stays on the host that placed it"
    publisher.close()


@pytest.mark.req("RULE11")
def test_an_outage_of_the_database_kills_nobody(farm: Farm):
    worker, scheduler = farm.start_worker("h1"), farm.start_scheduler()
    farm.wait_up(worker, scheduler)
    run_id = farm.submit(LANES, {"lanes": 2, "steps": 8, "seconds": 0.2})
    wait_until(lambda: farm.call_rows(run_id, "completed"), 20, "progress")
    farm.postgres.kill()
    back_at = time.monotonic() + 2 * LEASE_SECONDS
    wait_until(lambda: time.monotonic() > back_at, 10, "two leases to pass")
    farm.postgres.start()
    check_lanes(farm, run_id, 2, 8)
    assert worker.alive and scheduler.alive
    assert not worker.said("declared_dead") and not scheduler.said("lease_lost")


def test_a_broker_that_freezes_and_thaws_changes_nothing(farm: Farm):
    worker, scheduler = farm.start_worker("h1"), farm.start_scheduler()
    farm.wait_up(worker, scheduler)
    run_id = farm.submit(LANES, {"lanes": 2, "steps": 8, "seconds": 0.2})
    wait_until(lambda: farm.call_rows(run_id, "completed"), 20, "progress")
    farm.valkey.freeze()
    enough = min(len(farm.call_rows(run_id, "completed")) + 2, 2 * 8)
    wait_until(lambda: len(farm.call_rows(run_id, "completed")) >= enough, 60, "progress without a broker")
    farm.valkey.thaw()
    check_lanes(farm, run_id, 2, 8)
    assert worker.alive and scheduler.alive

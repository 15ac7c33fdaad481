"""The farm of no-ops over processes that die: the result is the same, every position ends once."""

import pytest

from tests.acceptance.farm.flows import LANES, WIDE
from tests.farm import Farm
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(150)


def check_lanes(farm: Farm, run_id: str, lanes: int, steps: int) -> None:
    finished = farm.wait_finished(run_id, 90)
    assert finished.data["status"] == "completed", finished
    assert finished.data["result"] == {f"lane{n}": sum(range(steps)) for n in range(lanes)}
    farm.check_rows(run_id)
    completed = farm.call_rows(run_id, "completed")
    assert len(completed) == lanes * steps
    assert len({row.call_id for row in completed}) == lanes * steps


def test_a_flow_runs_over_two_workers(farm: Farm):
    farm.wait_up(farm.start_scheduler(), farm.start_worker("h1"), farm.start_worker("h2"))
    run_id = farm.submit(WIDE, {"count": 60, "seconds": 0.05})
    finished = farm.wait_finished(run_id)
    assert finished.data["status"] == "completed"
    assert finished.data["result"] == sum(range(60))
    farm.check_rows(run_id)
    assert {row.host for row in farm.call_rows(run_id, "completed")} == {"h1", "h2"}


@pytest.mark.req("RULE21")
def test_calls_of_a_killed_worker_are_worked_by_another(farm: Farm):
    victim = farm.start_worker("h1")
    farm.wait_up(farm.start_scheduler(), victim)
    run_id = farm.submit(WIDE, {"count": 4, "seconds": 3})
    wait_until(lambda: victim.said('"claimed"'), 20, "a claim of the first worker")
    victim.kill()
    farm.wait_up(farm.start_worker("h2"))
    finished = farm.wait_finished(run_id, 60)
    assert finished.data["result"] == sum(range(4))
    farm.check_rows(run_id)
    assert {row.host for row in farm.call_rows(run_id, "completed")} == {"h2"}


@pytest.mark.req("RULE34")
def test_the_next_incarnation_frees_what_its_dead_predecessor_held_without_waiting_for_the_lease(farm: Farm):
    victim = farm.start_worker("h1", lease_seconds=600)
    farm.wait_up(farm.start_scheduler(lease_seconds=600), victim)
    run_id = farm.submit(WIDE, {"count": 2, "seconds": 1})
    wait_until(lambda: victim.said('"claimed"'), 20, "a claim")
    victim.kill()
    farm.wait_up(farm.start_worker("h1", lease_seconds=600))
    assert farm.wait_finished(run_id, 40).data["result"] == 1
    farm.check_rows(run_id)


def test_a_killed_scheduler_s_run_is_taken_over_and_replayed(farm: Farm):
    first = farm.start_scheduler("s1")
    farm.wait_up(first, farm.start_worker("h1"))
    run_id = farm.submit(LANES, {"lanes": 3, "steps": 8, "seconds": 0.2})
    wait_until(lambda: len(farm.call_rows(run_id, "completed")) >= 5, 30, "some completed positions")
    first.kill()
    before = {row.call_id for row in farm.call_rows(run_id, "completed")}
    farm.wait_up(farm.start_scheduler("s2"))
    check_lanes(farm, run_id, 3, 8)
    prepared = [row.call_id for row in farm.call_rows(run_id, "prepared")]
    assert all(prepared.count(call) == 1 for call in before), "a recorded position is replayed, not run again"


@pytest.mark.req("X16", "K72")
def test_a_scheduler_that_stops_in_order_gives_its_runs_back_at_once(farm: Farm):
    first = farm.start_scheduler("s1", lease_seconds=600)
    farm.wait_up(first, farm.start_worker("h1"), farm.start_scheduler("s2", lease_seconds=600, max_runs=1))
    runs = [farm.submit(LANES, {"lanes": 1, "steps": 6, "seconds": 0.3}) for _ in range(2)]
    wait_until(lambda: any(farm.call_rows(run, "completed") for run in runs), 30, "progress")
    assert first.terminate() == 0
    for run_id in runs:
        check_lanes(farm, run_id, 1, 6)


@pytest.mark.req("RULE34")
def test_a_worker_that_is_asked_to_stop_gives_its_unsent_calls_back(farm: Farm):
    first = farm.start_worker("h1", lease_seconds=600)
    farm.wait_up(farm.start_scheduler(), first)
    run_id = farm.submit(WIDE, {"count": 3, "seconds": 2})
    wait_until(lambda: first.said('"claimed"'), 20, "a claim")
    farm.wait_up(farm.start_worker("h2"))
    assert first.terminate() == 0
    assert farm.wait_finished(run_id, 30).data["result"] == 3
    farm.check_rows(run_id)


@pytest.mark.slow
def test_workers_and_schedulers_die_again_and_again(farm: Farm):
    farm.wait_up(farm.start_scheduler("s1"), farm.start_worker("h1"), farm.start_worker("h2"))
    run_id = farm.submit(LANES, {"lanes": 4, "steps": 10, "seconds": 0.15})
    for round_number in range(3):
        done = len(farm.call_rows(run_id, "completed"))
        wait_until(
            lambda done=done: len(farm.call_rows(run_id, "completed")) >= done + 4 or farm.finished(run_id),
            40,
            "progress between two kills",
        )
        host = f"h{1 + round_number % 2}"
        next(p for p in farm.processes if p.alive and p.name == f"worker-{host}").kill()
        next(p for p in farm.processes if p.alive and p.name.startswith("scheduler")).kill()
        farm.start_worker(host)
        farm.start_scheduler(f"again{round_number}")
    check_lanes(farm, run_id, 4, 10)

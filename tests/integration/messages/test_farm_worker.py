"""The farm's own worker and its broker as pytest-celery nodes, killed and started again under real calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pytest_celery import CeleryBrokerCluster, CeleryTestSetup

from shared.broker.client import check
from shared.broker.publish import Publisher
from tests.celery_nodes import WorkerProcess
from tests.farm import Farm
from tests.integration.workers.scripted_run import ScriptedRun
from tests.waiting import wait_until


@pytest.fixture
def broker_url(celery_broker_cluster: CeleryBrokerCluster) -> str:
    assert celery_broker_cluster.ready()
    return str(celery_broker_cluster[0].config()["host_url"])


@pytest.fixture
def default_worker_container(farm: Farm, broker_url: str, tmp_path: Path) -> WorkerProcess:
    """The product's worker; it also knows `noop`."""
    environment = farm.env(broker_url=broker_url, host_name="h1", state_dir=farm.directory / "state-h1")
    return WorkerProcess(["tests.farm_worker"], environment, tmp_path, prompt='"up"')


@pytest.fixture
def run(farm: Farm, broker_url: str) -> Iterator[ScriptedRun]:
    """A run whose calls are published on pytest-celery's broker."""
    with closing(ScriptedRun(farm)) as scripted:
        scripted.publisher.close()
        scripted.publisher = Publisher(broker_url)
        yield scripted


def _wait_claimed(farm: Farm, call: str) -> None:
    def is_claimed() -> bool:
        with farm.database.statement() as connection:
            query = "select state from call_claims where call_id = %s"
            return connection.exec_driver_sql(query, (call,)).scalar() == "claimed"

    wait_until(is_claimed, 20, "the call to be claimed")


def _wait_completed(run: ScriptedRun, *calls: str) -> None:
    for call in calls:
        end = wait_until(lambda call=call: run.end_of(call), 30, f"the end of {call}")
        assert end.event == "completed"


@pytest.mark.req("RULE21", "RULE34")
def test_a_killed_worker_s_call_runs_again_in_its_successor(
    celery_setup: CeleryTestSetup, farm: Farm, run: ScriptedRun
) -> None:
    call = run.open(seconds=2)
    _wait_claimed(farm, call)
    celery_setup.worker.kill()
    assert celery_setup.worker.container.status == "exited"
    celery_setup.worker.restart()
    _wait_completed(run, call)
    farm.check_rows(run.run_id)


@pytest.mark.req("RULE36")
def test_calls_run_through_a_dead_broker_and_new_ones_are_found_without_it(
    celery_setup: CeleryTestSetup, farm: Farm, run: ScriptedRun, broker_url: str
) -> None:
    before = run.open(seconds=2)
    _wait_claimed(farm, before)
    celery_setup.broker.kill()
    without = run.open(publish=False)
    _wait_completed(run, before, without)
    celery_setup.broker.restart()
    check(broker_url, timeout_seconds=10)
    after = run.open()
    _wait_completed(run, after)
    assert celery_setup.worker.container.status == "running"
    farm.check_rows(run.run_id)


def test_a_message_delivered_twice_runs_one_call(celery_setup: CeleryTestSetup, farm: Farm, run: ScriptedRun) -> None:
    call = run.open(seconds=1)
    for _ in range(3):
        run.send_again(call, "farm")
    _wait_completed(run, call)
    last = run.open()
    _wait_completed(run, last)
    farm.check_rows(run.run_id)
    assert len(farm.call_rows(run.run_id, "completed")) == 2

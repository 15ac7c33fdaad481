"""pytest-celery's setup on processes; with CRW_TEST_CONTAINERS set the broker is its own Redis container."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_celery import CeleryBrokerCluster, CeleryWorkerCluster, RedisTestBroker

from shared.broker.publish import Publisher
from tests.celery_nodes import ValkeyProcess, WorkerProcess

# Celery's arguments for the recording worker, as the farm starts its own.
RECORDING_WORKER = (
    "-A", "tests.integration.messages.recording_worker", "worker", "--loglevel", "INFO", "--pool", "threads",
    "--concurrency", "4", "--queues", "host.h1,farm", "--hostname", "h1@test", "--without-mingle", "--without-gossip",
)  # fmt: skip

if not os.environ.get("CRW_TEST_CONTAINERS"):

    @pytest.fixture
    def default_redis_broker(tmp_path: Path) -> ValkeyProcess:
        return ValkeyProcess(tmp_path)


@dataclass(frozen=True)
class Message:
    """A publication as the outbox hands it out."""

    call_id: str
    tries: int = 1
    queue: str = "farm"
    request_id: str = "q1"
    run_id: str = "r1"
    kind: str = "agent"
    role: str | None = "executor"
    node_id: str | None = "n1"
    label: str | None = None


@pytest.fixture
def celery_broker_cluster(celery_redis_broker: RedisTestBroker) -> Iterator[CeleryBrokerCluster]:
    cluster = CeleryBrokerCluster(celery_redis_broker)
    yield cluster
    cluster.teardown()


@pytest.fixture
def celery_backend_cluster() -> None:
    """The farm keeps no results in Celery."""


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "record"
    path.touch()
    return path


@pytest.fixture
def default_worker_container(celery_broker_cluster: CeleryBrokerCluster, record: Path, tmp_path: Path) -> WorkerProcess:
    assert celery_broker_cluster.ready()
    environment = {"CRW_BROKER_URL": celery_broker_cluster[0].config()["host_url"], "CRW_TEST_RECORD": str(record)}
    return WorkerProcess(["celery", *RECORDING_WORKER], environment, tmp_path)


@pytest.fixture
def celery_worker_cluster(celery_setup_worker: object) -> Iterator[CeleryWorkerCluster]:
    cluster = CeleryWorkerCluster(celery_setup_worker)
    yield cluster
    cluster.teardown()


@pytest.fixture
def send(celery_broker_cluster: CeleryBrokerCluster) -> Iterator[Callable[..., None]]:
    """Publish calls as the farm does."""
    publisher = Publisher(celery_broker_cluster[0].config()["host_url"])
    yield lambda *messages: publisher.send(messages)
    publisher.close()

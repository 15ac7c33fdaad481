"""Worker and broker as processes, driven by pytest-celery: what a message survives and what it does not.

The journal makes good what is lost here; these tests hold the settings that make a message
a plain hint: acknowledged early, nothing prefetched, no result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_celery import CeleryTestSetup

from shared.broker.client import check
from tests.integration.messages.conftest import Message
from tests.waiting import wait_until

Send = Callable[..., None]


def _count(record: Path, line: str) -> int:
    return record.read_text().splitlines().count(line)


def _wait_for(record: Path, line: str, times: int = 1) -> None:
    wait_until(lambda: _count(record, line) >= times, 30, f"{times} x {line!r} in the record")


def test_a_published_call_runs_once_and_leaves_nothing_on_the_broker(
    celery_setup: CeleryTestSetup, send: Send, record: Path
) -> None:
    send(Message("c1"), Message("c2", queue="host.h1"))
    _wait_for(record, "end c1")
    _wait_for(record, "end c2")
    assert (_count(record, "start c1"), _count(record, "start c2")) == (1, 1)
    client = celery_setup.broker.container.client
    # What is left are kombu's own notes on its queues: no message and no result.
    left = sorted(key for key in client.scan_iter() if not key.startswith(("_kombu.binding", "unacked_mutex")))
    assert left == []


@pytest.mark.req("RULE36")
def test_a_worker_takes_no_more_messages_than_it_has_threads(
    celery_setup: CeleryTestSetup, send: Send, record: Path
) -> None:
    send(*(Message(f"nap-30-{number}") for number in range(6)))
    for number in range(4):
        _wait_for(record, f"start nap-30-{number}")
    # The fifth lies on the broker, where another host would find it at once.
    time.sleep(0.5)
    assert celery_setup.broker.container.client.llen("farm") == 2


def test_a_killed_worker_takes_its_message_along_and_its_successor_runs_the_next_publication(
    celery_setup: CeleryTestSetup, send: Send, record: Path
) -> None:
    send(Message("nap-60-x"))
    _wait_for(record, "start nap-60-x")
    celery_setup.worker.kill()
    assert celery_setup.worker.container.status == "exited"
    client = celery_setup.broker.container.client
    assert (client.llen("farm"), client.hlen("unacked")) == (0, 0)
    send(Message("c2", tries=2))
    celery_setup.worker.restart()
    _wait_for(record, "end c2")
    assert _count(record, "start nap-60-x") == 1


def test_a_broker_that_dies_under_running_calls_costs_no_call_and_repeats_none(
    celery_setup: CeleryTestSetup, send: Send, record: Path
) -> None:
    names = [f"nap-3-{number}" for number in range(4)]
    send(*(Message(name) for name in names))
    for name in names:
        _wait_for(record, f"start {name}")
    celery_setup.broker.kill()
    for name in names:
        _wait_for(record, f"end {name}")
    celery_setup.broker.restart()
    check(celery_setup.broker.config()["host_url"], timeout_seconds=10)
    send(Message("after"))
    _wait_for(record, "end after")
    assert celery_setup.worker.container.status == "running"
    assert all(_count(record, f"start {name}") == 1 for name in names)


@pytest.mark.req("RULE23")
def test_a_flushed_broker_goes_on_with_what_is_published_next(
    celery_setup: CeleryTestSetup, send: Send, record: Path
) -> None:
    send(Message("c1"))
    _wait_for(record, "end c1")
    celery_setup.broker.container.client.flushall()
    send(Message("c1", tries=2))
    _wait_for(record, "end c1", times=2)

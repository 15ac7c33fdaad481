"""Each App Server of a host has a row, written beside the calls and waited for by none."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from shared.journal import serving
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_going_on import check_completed
from tests.waiting import wait_until
from workers.queues import start_thread

_ROWS = "select generation, state, reason from server_generations order by started_at"


@contextmanager
def recording(one: OneWorker) -> Iterator[None]:
    generations = one.application._generations
    start_thread(generations.loop, "generations")
    yield
    generations.close()


def wait_for_rows(one: OneWorker, *told: tuple[str, str | None]) -> None:
    wait_until(lambda: [row[1:] for row in one.farm.rows(_ROWS)] == list(told), 10, f"the rows {told}")


@pytest.mark.req("DEF16")
def test_a_server_has_a_row_from_its_start_to_its_end_and_the_reason(one: OneWorker) -> None:
    with recording(one):
        one.run(prompt(DONE))
        wait_for_rows(one, ("up", None))
        connection = one.worker.appserver.connection()
        shown = serving.list_servers(one.database)["h1"]
        assert (shown.generation, shown.pid, shown.up) == (connection.generation, connection.pid, True)
        assert (shown.codex_path, shown.codex_version) == (str(one.fake.program), connection.version)
        os.kill(connection.pid, signal.SIGKILL)
        wait_for_rows(one, ("ended", "exit status -9"))
        assert not serving.list_servers(one.database)["h1"].up
        one.worker.appserver.connection()
        one.worker.appserver.stop()
        wait_for_rows(one, ("ended", "exit status -9"), ("ended", "stopped"))


@pytest.mark.req("DEF16")
def test_what_a_dead_worker_had_running_is_ended_by_its_successor(one: OneWorker) -> None:
    with recording(one):
        one.worker.appserver.connection()
        wait_for_rows(one, ("up", None))
        # From here on nothing is noted any more.
    one.die()
    one.reincarnate()
    with recording(one):
        wait_for_rows(one, ("ended", "worker_gone"))


@pytest.mark.req("DEF16")
def test_a_row_that_cannot_be_written_delays_no_call_and_is_written_later(one: OneWorker) -> None:
    with recording(one):
        with one.database.engine.begin() as connection:
            connection.exec_driver_sql("alter table server_generations rename to taken_away")
        call = one.open(prompt(DONE))
        one.work(call)
        check_completed(one, call)
        with one.database.engine.begin() as connection:
            connection.exec_driver_sql("alter table taken_away rename to server_generations")
        wait_for_rows(one, ("up", None))


@pytest.mark.req("DEF16")
def test_the_windows_of_the_account_are_kept_as_last_heard(one: OneWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.generations._LOOK_SECONDS", 0.1)
    connection = one.worker.appserver.connection()
    window = {"usedPercent": 40, "windowDurationMins": 300, "resetsAt": 4102444800}
    spent = {"usedPercent": 97, "windowDurationMins": 10080, "resetsAt": 1000000000}

    def hear(**limits: object) -> None:
        told = {"method": "account/rateLimits/updated", "params": {"rateLimits": limits}}
        connection._server.router.receive(told)

    with recording(one):
        hear(primary=window, secondary=spent)
        found = wait_until(lambda: serving.list_limits(one.database).get("h1"), 10, "the windows")
        # The other one was reset long ago.
        assert [(limit.limit_id, limit.used_percent, limit.window_minutes) for limit in found] == [("primary", 40, 300)]
        hear(primary={**window, "usedPercent": 41}, secondary=None)
        wait_until(lambda: serving.list_limits(one.database)["h1"][0].used_percent == 41, 10, "the news")

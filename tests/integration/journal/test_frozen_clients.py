"""A client that freezes or hangs stops nobody else for long."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing

import psycopg2
import pytest

from shared.journal import hosts
from shared.journal.append import Claim
from shared.journal.database import Database
from tests.journal_farm import Farm
from tests.waiting import wait_until


@pytest.mark.req("RULE30")
def test_the_database_ends_a_session_that_freezes_inside_a_transaction(fresh_database: str) -> None:
    database = Database(fresh_database, process="test")
    with database.statement() as connection:
        limits = [
            connection.exec_driver_sql(f"select current_setting('{name}')").scalar_one()
            for name in ("idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout")
        ]
        assert limits == ["5s", "10s", "1min"]
        name = connection.exec_driver_sql("select current_database()").scalar_one()
        connection.exec_driver_sql(f"alter database {name} set idle_in_transaction_session_timeout = '300ms'")
    with closing(database.connect_raw()) as frozen:
        frozen.autocommit = False
        frozen.cursor().execute("lock table flow_runs")
        with database.statement() as connection:
            assert connection.exec_driver_sql("select count(*) from flow_runs").scalar_one() == 0
        with pytest.raises(psycopg2.OperationalError):
            frozen.cursor().execute("select 1")
    database.close()


@pytest.mark.req("RULE30")
def test_a_frozen_claim_delays_only_its_own_workers_burial(farm: Farm) -> None:
    frozen, silent = farm.new_worker("h1"), farm.new_worker("h2")
    opened = farm.open(farm.new_run())
    held = farm.claim(silent, opened)
    farm.rows("update farm_workers set lease_until = now() - interval '1 s' returning 1")
    with closing(farm.database.connect_raw()) as stuck:
        stuck.autocommit = False
        stuck.cursor().execute("select 1 from farm_workers where worker_id = %s for share", (frozen,))
        started = time.monotonic()
        freed = {suspect.worker_id: hosts.bury(farm.database, suspect.worker_id, suspect.beat)
                 for suspect in hosts.suspects(farm.database)}  # fmt: skip
        assert time.monotonic() - started < 4
    assert freed[frozen] == [] and [call.call_id for call in freed[silent]] == [held.call_id]

    def is_buried() -> bool:
        hosts.bury(farm.database, frozen, 0)
        return not hosts.suspects(farm.database)

    wait_until(is_buried, 10, "the worker to be buried once its claim let go")


@pytest.mark.req("RULE46")
def test_a_heartbeat_needs_no_connection_of_the_pool_and_gives_up_after_its_own_time(farm: Farm) -> None:
    worker = farm.new_worker()
    small = Database(farm.database.url.render_as_string(hide_password=False), process="test", pool_size=1)
    with ExitStack() as taken, closing(small.connect_raw(statement_timeout_seconds=0.3)) as own:
        for _ in range(2):
            taken.enter_context(small.transaction())
            taken.enter_context(small.statement())
        assert hosts.beat(own, worker, 1 << 40) is not None
        with closing(farm.database.connect_raw()) as stuck:
            stuck.autocommit = False
            stuck.cursor().execute("select 1 from farm_workers for update")
            started = time.monotonic()
            with pytest.raises(psycopg2.errors.QueryCanceled):
                hosts.beat(own, worker, 1 << 40)
            assert time.monotonic() - started < 4
        assert hosts.beat(own, worker, 1 << 40) is not None
    small.close()


@pytest.mark.req("RULE22", "RULE5")
def test_a_registration_whose_answer_was_lost_is_found_again(farm: Farm) -> None:
    worker = farm.new_worker("h1", worker_id="w-1")
    held = farm.claim(worker, farm.open(farm.new_run()))
    assert farm.new_worker("h1", worker_id="w-1") == worker
    assert isinstance(held, Claim)
    assert farm.rows("select state from farm_workers") == [("up",)]

"""Everything the processes do works as the role that may only insert rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.journal import artifacts, claims, hosts, outbox, progress, read, roster, run_leases, runs
from shared.journal.append import JournalWriter, RunRows
from shared.journal.database import Database
from shared.model.rows import NewCallRow, NewEventRow
from tests.journal_farm import Farm, make_identity


@pytest.fixture
def app_farm(fresh_database: str, postgres) -> Iterator[Farm]:  # type: ignore[no-untyped-def]
    owner = Database(fresh_database, process="owner")
    with owner.statement() as connection:
        name = connection.exec_driver_sql("select current_database()").scalar_one()
        connection.exec_driver_sql(f"create role app_{name} login in role crw_app")
    app = Database(fresh_database.replace("postgres@", f"app_{name}@"), process="app")
    writer = JournalWriter(app, host="h1")
    yield Farm(app, writer)
    writer.close()
    app.close()
    with owner.statement() as connection:
        connection.exec_driver_sql(f"drop role app_{name}")
    owner.close()


@pytest.mark.req("J01", "K03")
def test_a_run_from_submit_to_its_end_needs_no_more_than_the_application_role(app_farm: Farm) -> None:
    farm = app_farm
    farm.database.check(5)
    lease = farm.new_run(max_turns=5)
    identity = make_identity("h1")
    hosts.register(farm.database, identity)
    held = farm.claim(identity.worker_id, farm.open(lease, node="n"))
    farm.writer.append(held, NewCallRow("turn_requested"))
    progress.put(farm.database, [progress.Progress(held.call_id, held.fence, message="m\x00")])
    assert [seen.message for seen in progress.load(farm.database, lease.run_id)] == ["m\ufffd"]
    digest = artifacts.put(farm.database, b"log", "text/plain")
    assert artifacts.load(farm.database, digest) == b"log"
    farm.writer.append(held, NewCallRow("completed", result=b"1" * 70_000))
    other = farm.claim(identity.worker_id, farm.open(lease))
    claims.release(farm.database, other)
    outbox.take_due(farm.database, 5)
    connection = farm.database.connect_raw()
    hosts.beat(connection, identity.worker_id, 1)
    hosts.beat_scheduler(connection, farm.scheduler)
    connection.close()
    hosts.stop_worker(farm.database, identity.worker_id)
    runs.set_stop(farm.database, lease.run_id, "cancel")
    finished = RunRows(lease, events=(NewEventRow("finished", {"status": "x"}),), withdraw=True, finish=True)
    farm.writer.submit(finished).result()
    assert len(read.load(farm.database, lease.run_id)) == 6
    assert run_leases.give_back(farm.database, farm.scheduler) == []
    assert roster.list_hosts(farm.database)[0].host == "h1"

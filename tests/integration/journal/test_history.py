"""A restored or promoted database: nothing starts on it until its history was accepted."""

from __future__ import annotations

import pytest

from shared.base.errors import HistoryChanged, RightLost
from shared.journal import hosts, runs
from shared.journal.append import JournalWriter, RunRows
from shared.journal.database import Database
from shared.journal.history import LEAP, accept_history
from shared.journal.upgrading import upgrade
from shared.model.rows import NewCallRow, NewEventRow
from tests.journal_farm import Farm, make_identity


@pytest.mark.req("RULE18")
def test_another_timeline_is_refused_with_the_mend_and_an_upgrade_does_not_accept_it(fresh_database: str):
    database = Database(fresh_database, process="test")
    with database.statement() as connection:
        connection.exec_driver_sql("set role crw_app")
        connection.exec_driver_sql("select * from pg_control_system(), pg_control_checkpoint()")
        connection.exec_driver_sql("reset role")
        connection.exec_driver_sql("update farm_meta set timeline = timeline + 1")
    with pytest.raises(HistoryChanged, match="crw db accept-history"):
        database.check(5)
    upgrade(fresh_database)
    with pytest.raises(HistoryChanged):
        database.check(5)
    accept_history(fresh_database)
    database.check(5)
    assert accept_history(fresh_database).runs == 0, "a known history is left as it is"
    database.close()


@pytest.mark.req("RULE18")
def test_accepting_raises_every_fence_and_epoch_and_strands_what_was_sent(fresh_database: str):
    database = Database(fresh_database, process="test")
    writer = JournalWriter(database, host="h1")
    farm = Farm(database, writer)
    lease, worker = farm.new_run(), farm.new_worker()
    sent, unsent = farm.claim(worker, farm.open(lease)), farm.claim(worker, farm.open(lease))
    writer.append(sent, NewCallRow("command_started", {}))
    farm.rows("update farm_meta set system_id = 'other' returning 1")
    accepted = accept_history(fresh_database)
    assert (accepted.runs, accepted.stranded, accepted.opened) == (1, 1, 1)
    for claim in (sent, unsent):
        with pytest.raises(RightLost):
            writer.append(claim, NewCallRow("completed", {}))
    with pytest.raises(RightLost):
        writer.submit(RunRows(lease, events=(NewEventRow("log", {"message": "x"}),))).result()
    fences = dict(farm.rows("select call_id, fence from call_claims"))
    assert fences[sent.call_id] > sent.fence + LEAP - 1 and fences[unsent.call_id] > LEAP
    state = runs.run_state(database, lease.run_id)
    assert state is not None and state.state == "queued" and state.lease_epoch >= lease.epoch + LEAP
    hosts.register(database, make_identity("h1"))
    assert farm.rows("select state from call_claims where call_id = %(c)s", c=sent.call_id) == [("stranded",)]
    writer.close()
    database.close()

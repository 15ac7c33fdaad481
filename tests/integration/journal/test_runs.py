"""Runs are submitted once, taken by one scheduler, and looked at."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.base.errors import RunStopping, SchemaMismatch, StoreError, UsageError
from shared.journal import queries, run_leases, runs
from shared.journal.append import EndedCall, RunRows
from shared.journal.database import Database
from shared.journal.submit import submit
from shared.journal.tables import RUN_IDENTITY
from shared.model.rows import NewCallRow, NewEventRow
from shared.model.spec import FORMAT
from tests.journal_farm import SCRIPT, Farm, make_spec

SOURCES = {"flow.py": SCRIPT}


@pytest.mark.req("J23", "DEF17")
def test_a_run_and_its_sources_read_back_as_they_were_submitted(database: Database) -> None:
    spec = make_spec(args={"n": 2**60, "s": "\ud800"}, label="gpu")
    run = submit(database, spec, SOURCES).run_id
    assert runs.load_spec(database, run) == spec
    assert runs.load_source(database, spec.sources["flow.py"]) == SCRIPT
    with pytest.raises(StoreError, match="no run rx"):
        runs.load_spec(database, "rx")


@pytest.mark.req("RULE42")
def test_a_run_of_a_newer_format_is_neither_read_nor_taken(farm: Farm) -> None:
    scheduler = farm.new_scheduler()
    run = submit(farm.database, make_spec(format=FORMAT + 1), SOURCES).run_id
    with pytest.raises(SchemaMismatch, match=f"run {run} has format {FORMAT + 1}, and this program reads up to"):
        runs.load_spec(farm.database, run)
    assert run_leases.take(farm.database, scheduler, 5) == []
    runs.set_stop(farm.database, run, "cancel")
    assert run_leases.take_stopped(farm.database, run, scheduler) is None
    taken = (
        "update flow_runs set state = 'running', scheduler_id = %(old)s where run_id = %(run)s returning lease_epoch"
    )
    other = farm.new_scheduler()
    (epoch,) = farm.rows(taken, old=other, run=run)[0]
    assert run_leases.take_handed(farm.database, scheduler, run, other, epoch) is None


def test_the_same_key_never_starts_a_second_run_and_says_what_differs(database: Database) -> None:
    first = submit(database, make_spec(), SOURCES, "k")
    again = submit(database, make_spec(), SOURCES, "k")
    assert (again.run_id, first.created, again.created) == (first.run_id, True, False)
    with pytest.raises(UsageError, match=rf"{first.run_id}.*other args, target"):
        submit(database, make_spec(args=1, target="t"), SOURCES, "k")
    assert len(runs.list_runs(database)) == 1


@pytest.mark.req("RULE24")
def test_a_run_taken_from_dead_schedulers_without_progress_is_quarantined_at_the_third(farm: Farm) -> None:
    farm.new_run()
    takes = []
    for _ in range(3):
        farm.rows("update farm_schedulers set state = 'dead' returning 1")
        taken = run_leases.take(farm.database, farm.new_scheduler(), 5)
        takes += [run.takes for run in taken]
    assert takes == [1, 2]
    (state,) = runs.list_runs(farm.database, 5, "quarantined")
    assert state.takes_without_progress == 3


@pytest.mark.req("RULE24")
def test_a_terminal_row_is_progress_and_an_orderly_stop_does_not_count(farm: Farm) -> None:
    lease = farm.new_run()
    farm.rows("update farm_schedulers set state = 'dead' returning 1")
    (taken,) = run_leases.take(farm.database, farm.new_scheduler(), 5)
    op = farm.opening(lease, kind="clock")
    ended = EndedCall(op.call_id, op.path, op.position, op.kind, None, op.request_id, 0, NewCallRow("completed"))
    farm.writer.submit(RunRows(taken.lease, ended=(ended,))).result()
    assert run_leases.give_back(farm.database, taken.lease.scheduler_id) == [lease.run_id]
    assert farm.rows("select state, scheduler_id from flow_runs") == [("queued", None)]
    (again,) = run_leases.take(farm.database, farm.new_scheduler(), 5)
    assert (again.takes, again.lease.epoch, again.lease.rows_written) == (0, lease.epoch + 2, 1)


def test_of_several_schedulers_each_run_is_taken_by_one(farm: Farm) -> None:
    for number in range(12):
        submit(farm.database, make_spec(args=number), SOURCES)
    schedulers = [farm.new_scheduler() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda name: run_leases.take(farm.database, name, 3), schedulers))
    names = [run.run_id for runs_of_one in taken for run in runs_of_one]
    assert len(names) == len(set(names)) and all(run.lease.epoch == 1 for one in taken for run in one)
    # Whoever found a row locked by another passed over it: the next look takes the rest.
    for name in schedulers:
        names += [run.run_id for run in run_leases.take(farm.database, name, 12)]
    assert len(names) == len(set(names)) == 12


@pytest.mark.req("RULE48")
def test_a_poll_tells_of_rows_beyond_the_one_seen_and_of_stops(farm: Farm) -> None:
    lease = farm.new_run()
    other = farm.new_run()
    assert runs.poll(farm.database, {}) == []
    assert runs.poll(farm.database, {lease.run_id: 0, other.run_id: 0}) == []
    farm.writer.submit(RunRows(lease, events=(NewEventRow("log"),))).result()
    assert runs.poll(farm.database, {lease.run_id: 0, other.run_id: 0}) == [(lease.run_id, 2, None)]
    assert runs.poll(farm.database, {lease.run_id: 1}) == []
    runs.set_stop(farm.database, lease.run_id, "pause")
    assert runs.poll(farm.database, {lease.run_id: 1}) == [(lease.run_id, 2, "pause")]
    assert runs.set_stop(farm.database, "rx", "cancel") is None


@pytest.mark.req("DEF10", "RULE28")
def test_a_control_is_a_stop_on_the_run_cancel_beats_pause_and_no_intent_commits_behind_it(farm: Farm) -> None:
    lease = farm.new_run()
    asked = [runs.set_stop(farm.database, lease.run_id, how) for how in ("pause", "cancel", "pause")]
    assert [stopped.stop for stopped in asked if stopped is not None] == ["pause", "cancel", "cancel"]
    with pytest.raises(RunStopping):
        farm.open(lease)
    farm.writer.submit(
        RunRows(lease, events=(NewEventRow("finished", {"status": "script_error"}),), finish=True)
    ).result()
    assert runs.set_stop(farm.database, lease.run_id, "cancel") is None


@pytest.mark.req("K03")
def test_no_statement_updates_a_column_of_a_runs_identity() -> None:
    rooms = [Path(queries.__file__).parent, Path(queries.__file__).parents[1] / "migrations" / "versions"]
    texts = [path.read_text() for room in rooms for path in room.glob("*.py")]
    updates = [
        found for text in texts for found in re.findall(r"update flow_runs.*?\bset\b(.*?)(?:where|from)", text, re.S)
    ]
    assert len(updates) > 5
    for update in updates:
        for column in RUN_IDENTITY:
            assert not re.search(rf"\b{column} =", update), (column, update)

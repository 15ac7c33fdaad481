"""`crw flow cancel` where no scheduler has the run, where one has it, and where its hosts are silent."""

import threading

import pytest

from scheduler.cli.flow_cancel import end_run
from scheduler.client import Farm
from shared.journal import hosts, open_calls, read, run_leases, runs
from shared.journal.append import JournalWriter
from shared.journal.database import Database
from shared.journal.members import RunRows
from shared.model.rows import CallRow, EventRow, NewCallRow, NewEventRow
from tests.integration.cli.conftest import Crw
from tests.journal_farm import Farm as JournalFarm
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


def finished(database: Database, run_id: str) -> list[EventRow]:
    return [row for row in read.load(database, run_id) if isinstance(row, EventRow) and row.kind == "finished"]


def call_rows(database: Database, run_id: str, *events: str) -> list[CallRow]:
    return [row for row in read.load(database, run_id) if isinstance(row, CallRow) and row.event in events]


def silence(journal: JournalFarm, scheduler: str) -> None:
    """The scheduler's lease has run out."""
    journal.rows(
        "update farm_schedulers set lease_until = clock_timestamp() - interval '1 s'"
        " where scheduler_id = %(s)s returning 1",
        s=scheduler,
    )


@pytest.mark.req("J20", "J21", "K71", "RULE28")
def test_a_run_that_nobody_took_is_ended_by_the_command_itself(crw: Crw, database: Database):
    run = crw("flow", "start", "flow.py", "--repo", "repo").out.split()[0]
    said = crw("flow", "cancel", run)
    assert said.status == 0 and "cancelled" in said.out
    (end,) = finished(database, run)
    assert {name: end.data[name] for name in ("status", "error_kind", "by", "dead")} == {
        "status": "script_error", "error_kind": "cancelled", "by": "operator", "dead": False,
    }  # fmt: skip
    assert (end.data["executions_closed"], end.data["slots_returned"]) == (0, 0)
    assert crw("flow", "result", run).status == 1


@pytest.mark.req("J22")
def test_a_cancel_that_finds_the_run_over_appends_nothing(crw: Crw, database: Database):
    run = crw("flow", "start", "flow.py", "--repo", "repo").out.split()[0]
    crw("flow", "cancel", run)
    rows = read.load(database, run)
    again = crw("flow", "cancel", run)
    assert again.status == 0 and "had ended before" in again.out
    assert read.load(database, run) == rows


@pytest.mark.req("J20", "J21", "K73")
def test_a_run_whose_scheduler_is_silent_is_taken_with_a_higher_epoch_and_ended_dead(
    crw: Crw, journal: JournalFarm, database: Database
):
    lease = journal.new_run()
    journal.writer.submit(RunRows(lease, events=(NewEventRow("started", {}),))).result()
    opened = journal.open(lease)
    silence(journal, lease.scheduler_id)
    assert crw("flow", "cancel", lease.run_id).status == 0
    (end,) = finished(database, lease.run_id)
    assert end.data["dead"] is True
    assert [row.call_id for row in call_rows(database, lease.run_id, "withdrawn")] == [opened.call_id]
    state = runs.run_state(database, lease.run_id)
    assert state is not None and state.lease_epoch > lease.epoch and state.state == "ended"


@pytest.mark.req("K73", "X06")
def test_a_held_lease_is_left_to_its_scheduler_and_the_command_says_what_is_ending(
    crw: Crw, journal: JournalFarm, database: Database
):
    lease = journal.new_run()
    worker = journal.new_worker()
    op, agent = journal.open(lease, node="n1"), journal.open(lease, kind="agent", effect="reader")
    claim = journal.claim(worker, op)
    journal.claim(worker, agent)
    waiting = NewEventRow("cancel_waiting", {"calls": [{"call_id": op.call_id, "op": "noop", "node": "n1"}]})
    journal.writer.submit(RunRows(lease, events=(waiting,))).result()
    said = crw("flow", "cancel", lease.run_id, "--wait", "0")
    assert said.status == 1 and "no second cancel is needed" in said.out
    assert f"noop (call {op.call_id}, node n1)" in said.out and f"agent (call {agent.call_id})" in said.out
    assert crw("flow", "ps", "--json").records[0]["stop"] == "cancel"
    state = runs.run_state(database, lease.run_id)
    assert state is not None and state.lease_epoch == lease.epoch and not finished(database, lease.run_id)
    journal.writer.append(claim, NewCallRow("held", {"reason": "cancel"}))
    assert f"call {op.call_id}" not in crw("flow", "cancel", lease.run_id, "--wait", "0").out


@pytest.mark.req("X06")
def test_a_pending_cancel_without_a_call_says_that_none_is_known(crw: Crw, journal: JournalFarm):
    lease = journal.new_run()
    said = crw("flow", "cancel", lease.run_id, "--wait", "0")
    assert said.status == 1 and "no call in flight is known" in said.out


@pytest.mark.req("J15", "J16", "J17", "X05")
def test_the_command_names_the_ops_in_flight_waits_for_their_workers_and_writes_the_end_last(
    crw: Crw, journal: JournalFarm, database: Database
):
    lease = journal.new_run()
    worker = journal.new_worker()
    ops = [journal.open(lease, node="n1"), journal.open(lease)]
    held = [journal.claim(worker, op) for op in ops]
    silence(journal, lease.scheduler_id)

    def end_calls() -> None:
        wait_until(lambda: database.fetch("select 1 from flow_events where kind = 'cancel_waiting'", {}), 20, "the row")
        for claim in held:
            journal.writer.append(claim, NewCallRow("held", {"reason": "cancel"}))

    thread = threading.Thread(target=end_calls)
    thread.start()
    assert crw("flow", "cancel", lease.run_id).status == 0
    thread.join()
    rows = read.load(database, lease.run_id)
    (waiting,) = [row for row in rows if isinstance(row, EventRow) and row.kind == "cancel_waiting"]
    named = [{"call_id": op.call_id, "op": "noop", "node": op.node_id or ""} for op in ops]
    assert waiting.data["calls"] == sorted(named, key=lambda one: one["call_id"])
    assert all(row.seq > waiting.seq for row in call_rows(database, lease.run_id, "held"))
    assert isinstance(rows[-1], EventRow) and rows[-1].kind == "finished"


@pytest.mark.req("RULE27")
def test_at_the_end_of_the_wait_the_calls_of_silent_hosts_end_unknown_under_raised_fences(
    crw: Crw, journal: JournalFarm, database: Database
):
    lease = journal.new_run()
    dead, frozen = journal.new_worker("h1"), journal.new_worker("h2")
    sent = [journal.open(lease), journal.open(lease)]
    unsent = journal.open(lease)
    writers = [JournalWriter(database, host=host) for host in ("h1", "h2")]
    held = [journal.claim(dead, sent[0]), journal.claim(frozen, sent[1])]
    journal.claim(dead, unsent)
    for claim, writer in zip(held, writers, strict=True):
        writer.append(claim, NewCallRow("command_started", {}))
    hosts.stop_worker(database, dead)
    journal.rows("update farm_workers set lease_until = clock_timestamp() - interval '1 s' returning 1")
    silence(journal, lease.scheduler_id)
    assert crw("flow", "cancel", lease.run_id, "--wait", "0").status == 0
    unknown = call_rows(database, lease.run_id, "outcome_unknown")
    assert sorted(row.call_id for row in unknown) == sorted(call.call_id for call in sent)
    assert {row.detail["reason"] for row in unknown} == {"cancel"}
    assert [row.call_id for row in call_rows(database, lease.run_id, "withdrawn")] == [unsent.call_id]
    fences = dict(journal.rows("select call_id, fence from call_claims where state = 'ended'"))
    assert all(fences[claim.call_id] > claim.fence for claim in held)
    assert not open_calls.open_calls(database, lease.run_id) and len(finished(database, lease.run_id)) == 1
    for writer in writers:
        writer.close()


@pytest.mark.req("RULE27")
def test_a_call_that_a_living_worker_has_is_not_given_up(crw: Crw, journal: JournalFarm, database: Database):
    lease = journal.new_run()
    claim = journal.claim(journal.new_worker(), journal.open(lease))
    journal.writer.append(claim, NewCallRow("command_started", {}))
    silence(journal, lease.scheduler_id)
    said = crw("flow", "cancel", lease.run_id, "--wait", "0")
    assert said.status == 1 and not finished(database, lease.run_id)
    state = runs.run_state(database, lease.run_id)
    assert state is not None and state.state == "queued", "the scheduler that comes ends it"
    journal.writer.append(claim, NewCallRow("held", {"reason": "cancel"}))
    assert crw("flow", "cancel", lease.run_id).status == 0


@pytest.mark.req("J22", "RULE28")
def test_many_cancels_at_once_write_one_end_row(crw: Crw, database: Database):
    run = crw("flow", "start", "flow.py", "--repo", "repo").out.split()[0]

    def cancel() -> None:
        with Farm() as farm:
            farm.cancel(run)
            end_run(farm, run, 20, quiet=True)

    threads = [threading.Thread(target=cancel) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(finished(database, run)) == 1


@pytest.mark.req("RULE24", "RULE28")
def test_a_quarantined_run_says_why_and_is_ended_by_the_command_although_schedulers_live(
    crw: Crw, journal: JournalFarm, database: Database
):
    lease = journal.new_run()
    for _ in range(run_leases.TAKES_BEFORE_QUARANTINE):
        run_leases.let_go(database, lease, broke=True)
        taken = run_leases.take(database, journal.scheduler, 1)
        lease = taken[0].lease if taken else lease
    state = runs.run_state(database, lease.run_id)
    assert state is not None and state.state == "quarantined"
    assert "quarantined (no progress)" in crw("flow", "ps").out
    shown = crw("flow", "show", lease.run_id).out
    assert "3 times without progress" in shown and "crw flow cancel" in shown
    assert crw("flow", "cancel", lease.run_id).status == 0
    assert len(finished(database, lease.run_id)) == 1

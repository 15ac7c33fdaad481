"""The journal writer: order, rights, groups, content."""

from __future__ import annotations

import json
import time

import pytest

from shared.base.errors import BudgetSpent, RightLost, RowRefused, RunStopping, StoreError
from shared.journal import open_calls, read, runs
from shared.journal.append import CallRows, EndedCall, JournalWriter, RunLease, RunRows
from shared.journal.database import Database
from shared.model.rows import CallRow, EventRow, NewCallRow, NewEventRow
from tests.journal_farm import Farm
from tests.waiting import wait_until


@pytest.mark.req("J01", "J02", "J38")
def test_one_seq_numbers_calls_and_events_and_reads_back_as_appended(farm: Farm) -> None:
    lease = farm.new_run()
    value = {"n": 2**60, "f": 0.1, "s": "\ud800 \x00 é", "l": [None, True], "d": {"b": 1, "a": 2}}
    started = farm.writer.submit(RunRows(lease, events=(NewEventRow("started", value),))).result()
    opened = farm.opening(lease)
    made = farm.writer.submit(RunRows(lease, opens=(opened,), events=(NewEventRow("phase", {"name": "p"}),))).result()
    assert (started.seqs, made.seqs) == ((1,), (2, 3))
    held = farm.claim(farm.new_worker(), opened)
    assert farm.writer.append(held, NewCallRow("completed", value, label="l\x00", result=b'{"a":1}')).seqs == (4,)
    first, phase, prepared, completed = read.load(farm.database, lease.run_id)
    assert isinstance(first, EventRow) and first.data == value and first.kind == "started"
    assert isinstance(phase, EventRow) and phase.seq == 2
    assert isinstance(prepared, CallRow) and prepared.event == "prepared" and prepared.fence is None
    assert isinstance(completed, CallRow) and completed.detail == value and completed.label == "l\x00"
    assert completed.result == b'{"a":1}' and completed.fence == held.fence and completed.host == "h1"


@pytest.mark.req("J05", "RULE45", "K02")
def test_observations_ride_before_the_intent_that_follows_them(farm: Farm) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    farm.writer.append(held, NewCallRow("turn_requested"))
    farm.writer.note(held, NewCallRow("turn_started"))
    farm.writer.append(held, NewCallRow("interrupt_requested"))
    farm.writer.note(held, NewCallRow("turn_ended"))
    farm.writer.flush()
    events = [row.event for row in read.load_lean(farm.database, lease.run_id) if isinstance(row, CallRow)]
    assert events == ["prepared", "turn_requested", "turn_started", "interrupt_requested", "turn_ended"]


@pytest.mark.req("RULE31")
def test_a_stale_member_and_an_unstorable_one_fail_alone(farm: Farm) -> None:
    lease = farm.new_run()
    worker = farm.new_worker()
    good, stale, bad = (farm.claim(worker, farm.open(lease)) for _ in range(3))
    stale.fence -= 1
    futures = [
        farm.writer.submit(CallRows(good, (NewCallRow("placed"),)), wait=False),
        farm.writer.submit(CallRows(stale, (NewCallRow("placed"),)), wait=False),
        farm.writer.submit(CallRows(bad, (NewCallRow("placed", allocation=2**40),)), wait=False),
        farm.writer.submit(CallRows(good, (NewCallRow("completed"),)), wait=True),
    ]
    assert len(futures[0].result().seqs) == 1 and len(futures[3].result().seqs) == 1
    with pytest.raises(RightLost):
        futures[1].result()
    with pytest.raises(RowRefused, match="integer"):
        futures[2].result()
    assert farm.writer.append(bad, NewCallRow("refused", {"reason": "x"})).seqs


@pytest.mark.req("RULE31")
@pytest.mark.parametrize("path", ["main/1[\x00]", "main/1[\ud800]"])
def test_a_member_that_no_statement_can_hold_fails_alone(farm: Farm, path: str) -> None:
    lease, other = farm.new_run(), farm.new_run()
    good, bad = farm.opening(other), farm.opening(lease, path=path)
    futures = [
        farm.writer.submit(RunRows(lease, opens=(bad,)), wait=False),
        farm.writer.submit(RunRows(other, opens=(good,))),
    ]
    assert futures[1].result().seqs
    with pytest.raises(RowRefused, match="prepared"):
        futures[0].result()
    assert farm.open(lease)


def test_texts_are_stored_whatever_encoding_the_environment_asks_for(
    farm: Farm, fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    database = Database(fresh_database, process="test")
    writer = JournalWriter(database)
    try:
        lease = farm.new_run()
        writer.submit(RunRows(lease, events=(NewEventRow("log", {"message": "漢"}, label="漢"),))).result()
        assert farm.rows("select label from flow_events where kind = 'log'") == [("漢",)]
    finally:
        writer.close()
        database.close()


@pytest.mark.req("RULE28")
def test_no_intent_of_a_stopping_run_commits_but_interrupts_ends_and_what_keeps_work_do(farm: Farm) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    assert runs.set_stop(farm.database, lease.run_id, "cancel") is not None
    with pytest.raises(RunStopping):
        farm.writer.append(held, NewCallRow("turn_requested"))
    with pytest.raises(RunStopping):
        farm.writer.append(held, NewCallRow("push_requested", {"ref": "refs/heads/main", "guard": None}))
    with pytest.raises(RunStopping):
        farm.writer.submit(RunRows(lease, opens=(farm.opening(lease),))).result()
    farm.writer.append(held, NewCallRow("push_requested", {"ref": "refs/crw/flow/r/pending/c"}))
    farm.writer.append(held, NewCallRow("interrupt_requested"), NewCallRow("interrupted"))
    farm.writer.append(held, NewCallRow("held", {"reason": "paused"}))


def test_turns_above_the_cap_of_the_run_are_refused(farm: Farm) -> None:
    lease = farm.new_run(max_turns=1)
    worker = farm.new_worker()
    first, second = (farm.claim(worker, farm.open(lease)) for _ in range(2))
    farm.writer.append(first, NewCallRow("turn_requested"))
    with pytest.raises(BudgetSpent):
        farm.writer.append(second, NewCallRow("turn_requested"))
    farm.writer.append(second, NewCallRow("refused", {"reason": "budget"}))


def test_a_run_finishes_only_when_no_call_is_open_and_withdraws_what_nobody_claimed(farm: Farm) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    farm.open(lease)
    finish = RunRows(lease, events=(NewEventRow("finished", {"status": "cancelled"}),), withdraw=True, finish=True)
    with pytest.raises(StoreError, match="open, claimed"):
        farm.writer.submit(finish).result()
    farm.writer.append(held, NewCallRow("completed"))
    ended = farm.writer.submit(finish).result()
    assert ended.withdrawn == 1
    rows = read.load_lean(farm.database, lease.run_id)
    assert [getattr(row, "event", None) or row.kind for row in rows[-2:]] == ["withdrawn", "finished"]
    (state,) = runs.list_runs(farm.database, 5)
    assert state.state == "ended" and state.end == {"status": "cancelled"}
    with pytest.raises(RightLost):
        farm.writer.submit(RunRows(lease, events=(NewEventRow("log", {}),))).result()
    assert farm.rows("select count(*) from outbox") == [(0,)]


@pytest.mark.req("RULE14", "J29", "J44")
@pytest.mark.parametrize("answer", [b'"\\u0000"', '"\ud800"'.encode("utf-8", "surrogatepass"), b"1e400", b"\xff\x00"])
def test_no_terminal_row_fails_for_its_content(farm: Farm, answer: bytes) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    farm.writer.append(held, NewCallRow("completed", result=answer))
    (row,) = [row for row in read.load_call(farm.database, held.call_id) if row.event == "completed"]
    assert row.result == answer and row.result_bytes == len(answer)


@pytest.mark.req("RULE38")
def test_a_large_result_lies_in_a_table_by_digest_and_reads_back(farm: Farm) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    answer = b'"' + b"x" * 100_000 + b'"'
    farm.writer.append(held, NewCallRow("completed", result=answer))
    assert farm.rows("select result is null, result_ref is not null from flow_calls where terminal") == [(True, True)]
    assert read.load_call(farm.database, held.call_id)[-1].result == answer
    lean = read.load_after(farm.database, lease.run_id, 0, 10).rows[-1]
    assert isinstance(lean, CallRow) and lean.result is None and lean.result_bytes == len(answer)


def test_an_op_of_the_scheduler_is_written_with_its_row_in_one_transaction(farm: Farm) -> None:
    lease = farm.new_run()
    place = farm.opening(lease, kind="clock")
    common = (place.call_id, place.path, place.position, "clock", None, place.request_id, 0)
    rows = (EndedCall(*common, NewCallRow("prepared")), EndedCall(*common, NewCallRow("completed", result=b"1")))
    assert farm.writer.submit(RunRows(lease, ended=rows)).result().seqs == (1, 2)
    with pytest.raises(RowRefused):
        farm.writer.submit(RunRows(lease, ended=rows[1:])).result()
    assert open_calls.open_calls(farm.database, lease.run_id) == []


@pytest.mark.req("J30")
def test_data_with_a_reserved_member_is_refused(farm: Farm) -> None:
    lease = farm.new_run()
    with pytest.raises(RowRefused, match="underscore"):
        farm.writer.submit(RunRows(lease, events=(NewEventRow("log", {"_kind": "x"}),)))


@pytest.mark.req("J30")
def test_a_row_of_the_flow_keeps_its_data_and_where_it_stands_as_reserved_members(farm: Farm) -> None:
    lease = farm.new_run()
    row = NewEventRow("log", {"text": "x"}, path="main", position=3, op="clock", label="l")
    farm.writer.submit(RunRows(lease, events=(row,))).result()
    ((stored,),) = farm.rows("select payload_json from flow_events")
    reserved = {"_kind": "log", "_path": "main", "_position": 3, "_op": "clock", "_label": "l"}
    assert json.loads(stored) == {"text": "x", **reserved}
    (read_back,) = read.load(farm.database, lease.run_id)
    assert isinstance(read_back, EventRow) and read_back.data == {"text": "x"}


@pytest.mark.req("J26", "J27", "J28", "J29", "K01")
def test_the_plain_columns_of_a_row_are_filled_and_its_data_holds_no_result(farm: Farm) -> None:
    lease = farm.new_run()
    prepared = NewCallRow("prepared", {"prompt": "p"}, role="executor", label="build")
    held = farm.claim(farm.new_worker(), farm.open(lease, node="n", kind="agent", effect="executor", prepared=prepared))
    place = {"worktree_kind": "fresh", "worktree_path": '/w "a", (b\\c)\n\'{}', "start_commit": "", "allocation": 2}
    end = {
        "thread_id": "th", "turn_id": "tu", "operation": "op", "commit_sha": "c1", "pending_tree": "p1",
        "held_tree": "p2", "snapshot_digest": "sd", "input_state": "delivered", "tokens": 7,
    }  # fmt: skip
    farm.writer.append(held, NewCallRow("placed", **place))
    farm.writer.append(held, NewCallRow("completed", {"reason": None}, result=b'{"answer": "xyzzy"}', **end))
    _, placed, completed = read.load_call(farm.database, held.call_id)
    assert {name: getattr(placed, name) for name in place} == place
    assert {name: getattr(completed, name) for name in end} == end
    for row in (placed, completed):
        assert (row.kind, row.role, row.label, row.node_id, row.attempt) == ("agent", "executor", "build", "n", 0)
    assert completed.result_bytes == 19 and completed.result_digest
    (details,) = farm.rows("select string_agg(detail_json, ' ') from flow_calls")
    assert "xyzzy" not in details[0] and '"_label":"build"' in details[0]


def test_a_caller_that_stops_waiting_takes_nothing_back_and_the_writer_goes_on(farm: Farm) -> None:
    lease = farm.new_run()
    rows = RunRows(lease, events=(NewEventRow("log"),))
    futures = [farm.writer.submit(rows, wait=False) for _ in range(3)]
    assert not any(future.cancel() for future in futures)
    farm.writer.flush()
    assert [future.result().seqs for future in futures] == [(1,), (2,), (3,)]


def test_a_closed_writer_has_written_what_was_queued_and_takes_nothing_more(farm: Farm) -> None:
    lease = farm.new_run()
    rows = RunRows(lease, events=(NewEventRow("log"),))
    waiting = farm.writer.submit(rows, wait=False)
    farm.writer.close()
    assert waiting.result().seqs == (1,)
    with pytest.raises(StoreError, match="closed"):
        farm.writer.submit(rows)


@pytest.mark.req("RULE38")
def test_a_result_above_the_limit_is_refused_before_anything_is_written(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.journal.encoding.RESULT_LIMIT_BYTES", 1000)
    held = farm.claim(farm.new_worker(), farm.open(farm.new_run()))
    with pytest.raises(RowRefused, match="1001 bytes"):
        farm.writer.append(held, NewCallRow("completed", result=b"x" * 1001))
    farm.writer.append(held, NewCallRow("held", {"reason": "result_too_large"}))


@pytest.mark.req("DEF2", "RULE42")
def test_a_row_of_an_unknown_kind_or_in_the_wrong_table_is_refused(farm: Farm) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    for word in ("teleported", "phase"):
        with pytest.raises(RowRefused, match=word):
            farm.writer.append(held, NewCallRow(word))
    for word in ("teleported", "completed"):
        with pytest.raises(RowRefused, match=word):
            farm.writer.submit(RunRows(lease, events=(NewEventRow(word),)))
    with pytest.raises(RowRefused, match="not the last"):
        farm.writer.append(held, NewCallRow("completed"), NewCallRow("usage"))


@pytest.mark.req("RULE38")
def test_a_row_and_a_claim_find_their_call_by_its_key_though_the_plans_are_older_than_the_calls(farm: Farm) -> None:
    lease, worker = farm.new_run(), farm.new_worker()
    # The session's plans are made now, while the tables are all but empty.
    farm.writer.append(farm.claim(worker, farm.open(lease)), NewCallRow("completed"))
    farm.writer.submit(RunRows(lease, opens=tuple(farm.opening(lease) for _ in range(500)))).result()
    before = _whole_reads(farm, lease, worker)
    assert _whole_reads(farm, lease, worker) == before


def _whole_reads(farm: Farm, lease: RunLease, worker: str) -> int:
    """How often tables of the hot path were read from end to end, some calls of this sort included."""
    for _ in range(3):
        farm.writer.append(farm.claim(worker, farm.open(lease)), NewCallRow("completed"))
    # A session tells what it did at its first statement after a second.
    told_at = time.monotonic() + 1.1
    wait_until(lambda: time.monotonic() > told_at, 5, "the sessions to be due")
    farm.writer.append(farm.claim(worker, farm.open(lease)), NewCallRow("completed"))
    query = (
        "select sum(seq_scan)::int from pg_stat_user_tables where relname in ('call_claims', 'outbox', 'flow_calls')"
    )
    [(count,)] = farm.database.fetch(query, {})
    return int(count)

"""Two sessions write: lost answers, stops, takeovers, groups that overlap."""

from __future__ import annotations

import threading
from typing import Any

import psycopg2
import pytest

from shared.base.errors import RightLost
from shared.journal import read, run_leases, runs
from shared.journal.append import CallRows, JournalWriter, RunRows
from shared.journal.encoding import encode
from shared.journal.group import AppendConnection
from shared.model.rows import NewCallRow, NewEventRow
from tests.integration.journal.sessions import session, waiting
from tests.journal_farm import Farm

PLACED = NewCallRow("placed")


@pytest.mark.req("RULE1")
def test_a_group_sent_again_after_its_answer_was_lost_is_recognised_as_stored(farm: Farm) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    rows = CallRows(held, (PLACED, NewCallRow("turn_requested")))
    with session(farm) as one:
        assert one.append(rows)
        one.commit()
        assert not one.append(rows)
        one.commit()
    group = [(held, encode(rows))]
    connection = _LosesFirstAnswer(farm, commit_first=False)
    (verdict,) = connection.send(group)
    connection.close()
    assert (verdict.status, verdict.seqs, verdict.count) == ("stored", (2, 3), 2)
    assert farm.rows("select count(*) from flow_calls where event = 'placed'") == [(1,)]


@pytest.mark.req("RULE1")
def test_a_group_repeated_while_the_old_backend_still_commits_waits_for_it(farm: Farm) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    rows = CallRows(held, (PLACED,))
    connection = _LosesFirstAnswer(farm, commit_first=False)
    with session(farm) as one:
        assert one.append(rows)
        with waiting(one, lambda: connection.send([(held, encode(rows))])) as sent:
            one.commit()
            (verdict,) = sent.result(10)
    connection.close()
    assert (verdict.status, verdict.seqs) == ("stored", (2,))


@pytest.mark.req("RULE1")
def test_rows_of_a_run_are_recognised_as_stored_member_by_member(farm: Farm) -> None:
    lease = farm.new_run()
    farm.writer.submit(RunRows(lease, events=(NewEventRow("started"),))).result()
    members = [
        RunRows(lease, events=(NewEventRow("phase"), NewEventRow("log"))),
        RunRows(lease, opens=(farm.opening(lease), farm.opening(lease))),
    ]
    connection = _LosesFirstAnswer(farm, commit_first=True)
    first, second = connection.send([(lease, encode(member)) for member in members])
    connection.close()
    assert (first.status, first.seqs, second.status, second.seqs) == ("stored", (2, 3), "stored", (4, 5))
    assert second.count == 5


@pytest.mark.req("RULE1", "RULE3", "K05")
def test_a_count_that_somebody_else_moved_is_no_right(farm: Farm) -> None:
    worker = farm.new_worker()
    opened = farm.open(farm.new_run())
    held, twin = farm.claim(worker, opened, "g"), farm.claim(worker, opened, "g")
    farm.writer.append(held, PLACED)
    with pytest.raises(RightLost):
        farm.writer.append(twin, PLACED)
    with pytest.raises(RightLost):
        farm.writer.append(twin, NewCallRow("completed"))


@pytest.mark.req("RULE28")
def test_an_intent_that_was_first_is_stored_and_a_stop_waits_for_it(farm: Farm) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    with session(farm) as one:
        assert one.append_rows(held, "turn_requested")
        with waiting(one, lambda: runs.set_stop(farm.database, lease.run_id, "pause")) as stopped:
            one.commit()
            assert stopped.result(10) is not None
    held.rows_written = 1
    stop = runs.set_stop(farm.database, lease.run_id, "cancel")
    assert stop is not None and stop.stop == "cancel"
    again = runs.set_stop(farm.database, lease.run_id, "pause")
    assert again is not None and again.stop == "cancel"


@pytest.mark.req("RULE28")
def test_an_intent_that_waits_behind_a_stop_is_refused(farm: Farm) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    with session(farm) as one:
        one.run("update flow_runs set stop = 'cancel'")
        with waiting(one, lambda: farm.writer.append(held, NewCallRow("turn_requested"))) as sent:
            one.commit()
            assert type(sent.exception(10)).__name__ == "RunStopping"
    assert farm.rows("select count(*) from flow_calls where event = 'turn_requested'") == [(0,)]


@pytest.mark.req("RULE47", "RULE3", "K05", "J43")
def test_after_a_takeover_the_old_scheduler_has_no_right(farm: Farm) -> None:
    old = farm.new_run()
    farm.rows("update farm_schedulers set state = 'dead' where scheduler_id = %(s)s returning 1", s=farm.scheduler)
    other = farm.new_scheduler()
    (taken,) = run_leases.take(farm.database, other, 5)
    assert taken.lease.epoch == old.epoch + 1 and taken.takes == 1
    with pytest.raises(RightLost):
        farm.writer.submit(RunRows(old, opens=(farm.opening(old),))).result()
    farm.writer.submit(RunRows(taken.lease, opens=(farm.opening(old),))).result()
    with pytest.raises(RightLost):
        run_leases.take(farm.database, farm.scheduler, 5)


@pytest.mark.req("RULE3", "J43")
def test_an_old_scheduler_that_waits_behind_a_takeover_is_refused(farm: Farm) -> None:
    lease = farm.new_run()
    row = RunRows(lease, events=(NewEventRow("log"),))
    with session(farm) as one:
        one.run("update flow_runs set lease_epoch = lease_epoch + 1")
        with waiting(one, lambda: farm.writer.submit(row).result()) as sent:
            one.commit()
            assert isinstance(sent.exception(10), RightLost)
    assert farm.rows("select count(*) from flow_events") == [(0,)]


@pytest.mark.req("RULE37")
def test_groups_over_the_same_calls_in_any_order_do_not_deadlock(farm: Farm) -> None:
    leases = [farm.new_run() for _ in range(4)]
    worker = farm.new_worker()
    held = [farm.claim(worker, farm.open(lease)) for lease in leases for _ in range(4)]
    writers = [JournalWriter(farm.database, host="h1") for _ in range(3)]
    before = farm.rows("select deadlocks from pg_stat_database where datname = current_database()")

    def write(writer: JournalWriter, start: int) -> None:
        for step in range(30):
            claim = held[(start + step * (1 + start)) % len(held)]
            # Whoever is behind is refused; what counts is that nobody waits in a circle.
            writer.submit(CallRows(claim, (PLACED,))).exception()

    threads = [threading.Thread(target=write, args=(writers[n % 3], n)) for n in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.close()
    assert farm.rows("select deadlocks from pg_stat_database where datname = current_database()") == before
    for lease in leases:
        seqs = [row.seq for row in read.load_lean(farm.database, lease.run_id)]
        assert seqs == list(range(1, len(seqs) + 1))


class _LosesFirstAnswer(AppendConnection):
    """Its connection breaks once, before or after the first group was stored."""

    def __init__(self, farm: Farm, *, commit_first: bool) -> None:
        super().__init__(farm.database, "h1", 20.0)
        self._connection = _Breaking(farm.database.connect_raw(), commit_first)


class _Breaking:
    def __init__(self, connection: Any, commit_first: bool) -> None:
        self._real = connection
        self._commit_first = commit_first

    def cursor(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def execute(self, statement: str, parameters: object) -> None:
        if self._commit_first:
            with self._real.cursor() as cursor:
                cursor.execute(statement, parameters)
        raise psycopg2.OperationalError("server closed the connection unexpectedly")

    def close(self) -> None:
        self._real.close()

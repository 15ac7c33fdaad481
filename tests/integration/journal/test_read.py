"""A reader at a cursor misses no row and gets none twice."""

from __future__ import annotations

import threading

import pytest

from shared.journal import read
from shared.journal.append import JournalWriter, RunRows
from shared.model.rows import CallRow, NewCallRow, NewEventRow
from tests.journal_farm import Farm


@pytest.mark.req("RULE17", "J39", "J40")
def test_a_page_ends_at_the_first_gap_and_says_whether_there_is_more(farm: Farm) -> None:
    lease = farm.new_run()
    farm.writer.submit(RunRows(lease, events=tuple(NewEventRow("log", {"n": n}) for n in range(5)))).result()
    page = read.load_after(farm.database, lease.run_id, 0, 3)
    assert [row.seq for row in page.rows] == [1, 2, 3] and page.more
    rest = read.load_after(farm.database, lease.run_id, 3, 3)
    assert [row.seq for row in rest.rows] == [4, 5] and not rest.more
    farm.rows("delete from flow_events where seq = 4 returning 1")
    assert [row.seq for row in read.load_after(farm.database, lease.run_id, 0, 10).rows] == [1, 2, 3]
    assert read.load_after(farm.database, lease.run_id, 3, 10) == read.Page([], False)


@pytest.mark.req("J43")
def test_readers_write_nothing_also_about_a_run_that_is_none(farm: Farm) -> None:
    lease = farm.new_run()
    farm.open(lease)
    counts = (
        "select (select count(*) from flow_runs), (select count(*) from flow_calls), (select next_seq from flow_runs)"
    )
    before = farm.rows(counts)
    for run_id in (lease.run_id, "raaaaaaaaaaaa"):
        read.load(farm.database, run_id)
        read.load_lean(farm.database, run_id)
        read.load_after(farm.database, run_id, 0, 10)
        read.load_node(farm.database, run_id, "n")
    assert read.load(farm.database, "raaaaaaaaaaaa") == []
    assert farm.rows(counts) == before


@pytest.mark.req("J41", "RULE17", "J02")
def test_a_watcher_beside_several_writers_sees_every_row_once_in_order(farm: Farm) -> None:
    lease = farm.new_run()
    worker = farm.new_worker()
    held = [farm.claim(worker, farm.open(lease)) for _ in range(4)]
    writers = [JournalWriter(farm.database, host="h1") for _ in range(2)]
    stop = threading.Event()
    seen: list[int] = []

    def watch() -> None:
        while True:
            last = stop.is_set()
            page = read.load_after(farm.database, lease.run_id, seen[-1] if seen else 0, 7)
            seen.extend(row.seq for row in page.rows)
            if last and not page.more:
                return

    def write(number: int) -> None:
        for _ in range(40):
            writers[number % 2].append(held[number], NewCallRow("turn_ended", tokens=number))

    watcher = threading.Thread(target=watch)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in (watcher, *threads):
        thread.start()
    for _ in range(30):
        farm.writer.submit(RunRows(lease, events=(NewEventRow("log"),))).result()
    for thread in threads:
        thread.join()
    stop.set()
    watcher.join()
    for writer in writers:
        writer.close()
    assert seen == list(range(1, 4 + 160 + 30 + 1))


@pytest.mark.req("J35", "J42", "RULE44")
def test_rows_of_other_writers_stand_beyond_every_page(farm: Farm) -> None:
    lease = farm.new_run()
    farm.rows(
        "insert into flow_events (run_id, seq, kind, written_at, writer, payload_json)"
        " select run_id, next_foreign_seq, 'log', now(), 1, '{}' from flow_runs returning 1"
    )
    farm.writer.submit(RunRows(lease, events=(NewEventRow("log"),))).result()
    assert [row.seq for row in read.load(farm.database, lease.run_id)] == [1]


def test_a_node_is_read_by_its_places_its_executor_calls_and_its_commits(farm: Farm) -> None:
    lease = farm.new_run()
    worker = farm.new_worker()
    build = farm.claim(worker, farm.open(lease, node="n", kind="agent", effect="executor"))
    farm.writer.append(build, NewCallRow("placed", allocation=1, worktree_path="/w"), NewCallRow("thread_requested"))
    farm.writer.append(build, NewCallRow("completed", pending_tree="t"))
    for kind in ("commit", "verify"):
        farm.writer.append(farm.claim(worker, farm.open(lease, node="n", kind=kind)), NewCallRow("completed"))
    found = read.load_node(farm.database, lease.run_id, "n")
    assert [(row.kind, row.event) for row in found] == [
        ("agent", "placed"), ("agent", "completed"), ("commit", "completed"),
    ]  # fmt: skip
    assert all(isinstance(row, CallRow) for row in found) and found[1].pending_tree == "t"


def test_a_run_longer_than_a_page_is_read_whole(farm: Farm) -> None:
    lease = farm.new_run()
    for _ in range(3):
        farm.writer.submit(RunRows(lease, events=tuple(NewEventRow("log") for _ in range(400)))).result()
    assert [row.seq for row in read.load_lean(farm.database, lease.run_id)] == list(range(1, 1201))

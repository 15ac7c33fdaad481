"""The journal's figures: rows a second, callers a flush, and what a position costs late in a long run."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import median
from typing import Any

import psycopg2

from shared.base.ids import call_id
from shared.journal import read, runs
from shared.journal.append import Claim, JournalWriter, RunLease
from shared.journal.database import Database
from shared.model.rows import NewCallRow
from tests.benchmarks.bench import REPETITIONS, Bench, Figure, ratio
from tests.journal_farm import Farm

WRITERS = 16
WINDOW_SECONDS = 2.0
POSITIONS = 40
SHORT_ROWS, LONG_ROWS = 500, 50_000
# What an intent of a call looks like, and the same data for the bare server.
INTENT = NewCallRow("placed", {"host": "h1", "kind": "fresh", "lineage": 1}, worktree_path="/w/n/a1", allocation=1)
PLAIN_TABLE = """create table plain_rows (
  id bigserial primary key, run_id text, event text, worktree_path text, allocation integer, detail_json text)"""
PLAIN = "insert into plain_rows (run_id, event, worktree_path, allocation, detail_json) values (%s, %s, %s, %s, %s)"
VALUES = ("r", "placed", "/w/n/a1", 1, '{"host":"h1","kind":"fresh","lineage":1}')
FLUSHES = "select coalesce(sum(fsyncs), 0)::bigint from pg_stat_io where object = 'wal'"


def writing(bench: Bench) -> list[Figure]:
    """`journal_vs_server` and `intents_per_flush`: 16 threads through the journal, 16 on the bare server, in turns."""
    ours, theirs, shared = [], [], []
    with _journal(bench) as (farm, url):
        lease = farm.new_run()
        worker = farm.new_worker()
        held = [farm.claim(worker, farm.open(lease)) for _ in range(WRITERS)]
        with farm.database.statement() as connection:
            connection.exec_driver_sql(PLAIN_TABLE)
        clients = [psycopg2.connect(_dsn(url)) for _ in range(WRITERS)]

        def append(number: int) -> None:
            farm.writer.append(held[number], INTENT)

        def insert(number: int) -> None:
            with clients[number].cursor() as cursor:
                cursor.execute(PLAIN, VALUES)
            clients[number].commit()

        for repetition in range(REPETITIONS + 1):
            before = _flushes(farm, held[0])
            rows, seconds = _window(append)
            flushes = _flushes(farm, held[0]) - before
            bare_rows, bare_seconds = _window(insert)
            if repetition:  # the first one warms up
                ours.append(rows / seconds)
                shared.append(rows / max(1, flushes))
                theirs.append(bare_rows / bare_seconds)
        for client in clients:
            client.close()
    limits = "a row of the journal also moves its claim and its run, and judges both"
    return [
        ratio("journal_vs_server", ours, theirs, bar=0.8, at_least=True, unit="rows/s", limits=limits),
        ratio("intents_per_flush", shared, [1.0] * len(shared), bar=3, at_least=True, unit="intents/flush"),
    ]


def growth(bench: Bench) -> list[Figure]:
    """`flat_growth`: open, claim, end and read back a position of a run of 50,000 rows against one of 500."""
    late, early = [], []
    with _journal(bench) as (farm, url):
        worker = farm.new_worker()
        leases = [_seeded_run(farm, url, rows) for rows in (LONG_ROWS, SHORT_ROWS)]
        for repetition in range(REPETITIONS + 1):
            # One position here, one there: a slow moment of the machine meets both.
            pairs = [[_position_seconds(farm, worker, lease) for lease in leases] for _ in range(POSITIONS)]
            if repetition:  # the first one warms up
                late.append(median(pair[0] for pair in pairs) * 1000)
                early.append(median(pair[1] for pair in pairs) * 1000)
    return [ratio("flat_growth", late, early, bar=1.3, at_least=False, unit="ms")]


@contextmanager
def _journal(bench: Bench) -> Iterator[tuple[Farm, str]]:
    url = bench.fresh_database()
    with (
        closing(Database(url, process="bench", pool_size=WRITERS)) as database,
        closing(JournalWriter(database, host="h1")) as writer,
    ):
        yield Farm(database, writer), url


def _dsn(url: str) -> str:
    return url.replace("postgresql+psycopg2://", "postgresql://")


def _window(work: Callable[[int], Any]) -> tuple[int, float]:
    """Let each of the threads repeat `work(number)` for the window; how often they did, and in how many seconds."""
    counts = [0] * WRITERS
    end = time.monotonic() + WINDOW_SECONDS

    def repeat(number: int) -> None:
        while time.monotonic() < end:
            work(number)
            counts[number] += 1

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(WRITERS)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts), time.monotonic() - started


def _flushes(farm: Farm, held: Claim) -> int:
    """WAL flushes of the server so far."""
    # A backend tells its counts with a commit that is at least a second younger than the last time it did.
    time.sleep(1.1)
    farm.writer.append(held, INTENT)
    ((flushes,),) = farm.rows(FLUSHES)
    return int(flushes)


def _seeded_run(farm: Farm, url: str, rows: int) -> RunLease:
    """A run that has this many rows: ended calls of three rows each, copied in."""
    lease = farm.new_run()
    lines = io.StringIO()
    for seq in range(1, rows + 1):
        position, event = 1_000_000 + (seq - 1) // 3, ("prepared", "placed", "completed")[(seq - 1) % 3]
        call = call_id(lease.run_id, "main", position)
        terminal = "t" if event == "completed" else "f"
        lines.write(f"{lease.run_id}\t{seq}\t{call}\tmain\t{position}\t0\tnoop\t{event}\t{terminal}\tq\tnow\t1\t{{}}\n")
    lines.seek(0)
    with closing(psycopg2.connect(_dsn(url))) as connection, connection, connection.cursor() as cursor:
        columns = "run_id, seq, call_id, path, position, attempt, kind, event, terminal, request_id, written_at, writer"
        cursor.copy_expert(f"copy flow_calls ({columns}, detail_json) from stdin", lines)
        cursor.execute("update flow_runs set next_seq = %s where run_id = %s", (rows + 1, lease.run_id))
    return lease


def _position_seconds(farm: Farm, worker: str, lease: RunLease) -> float:
    """Seconds of a position: its open, its claim, its end, and what the scheduler reads to return it."""
    state = runs.run_state(farm.database, lease.run_id)
    assert state is not None
    seen = state.next_seq - 1
    started = time.monotonic()
    opened = farm.open(lease)
    farm.writer.append(farm.claim(worker, opened), NewCallRow("completed", result=b"1"))
    runs.poll(farm.database, {lease.run_id: seen})
    page = read.load_after(farm.database, lease.run_id, seen, 100)
    ended = read.load_call(farm.database, opened.call_id)[-1]
    seconds = time.monotonic() - started
    assert [row.seq for row in page.rows] == [seen + 1, seen + 2] and ended.result == b"1"
    return seconds

"""The database or a writing process is killed; what was told stays, what was not may be missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.embedded import Postgres
from shared.base.errors import RightLost, StoreUnavailable
from shared.journal import read
from shared.journal.append import JournalWriter
from shared.journal.database import Database
from shared.journal.upgrading import upgrade
from shared.model.rows import CallRow, NewCallRow
from tests.journal_farm import Farm
from tests.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Postgres]:
    with Postgres(tmp_path / "postgres") as started:
        upgrade(started.url)
        yield started


@pytest.mark.req("RULE1", "RULE2", "K02", "J05")
def test_a_crash_of_the_database_loses_no_row_that_was_told_and_numbers_stay_dense(server: Postgres) -> None:
    database = Database(server.url, process="test", pool_size=8)
    writer = JournalWriter(database, host="h1")
    farm = Farm(database, writer)
    lease = farm.new_run()
    worker = farm.new_worker()
    held = [farm.claim(worker, farm.open(lease)) for _ in range(8)]
    told: list[int] = []
    stop = threading.Event()

    def write(number: int) -> None:
        while not stop.is_set():
            told.extend(writer.append(held[number], NewCallRow("placed")).seqs)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(held))]
    for thread in threads:
        thread.start()
    try:
        for crash in (1, 2):
            wait_until(lambda: len(told) > 50 * crash, 30, "rows to be told")  # noqa: B023 - called at once
            server.kill()
            server.start()
        wait_until(lambda: len(told) > 150, 30, "rows after the last crash")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    seqs = [row.seq for row in read.load_lean(database, lease.run_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert sorted(told) == seqs[len(held) :]
    writer.close()
    database.close()


@pytest.mark.req("J09")
def test_a_row_whose_fate_is_not_known_ends_its_right_and_what_was_queued_behind_it(server: Postgres) -> None:
    database = Database(server.url, process="test")
    writer = JournalWriter(database, host="h1", give_up_seconds=0.3)
    farm = Farm(database, writer)
    held = farm.claim(farm.new_worker(), farm.open(farm.new_run()))
    server.kill()
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        writer.append(held, NewCallRow("placed"))
    server.start()
    with pytest.raises(RightLost, match="fate"):
        writer.append(held, NewCallRow("turn_requested"))
    writer.close()
    database.close()


WRITES = """
import sys
from shared.journal import claims
from shared.journal.append import JournalWriter
from shared.journal.database import Database
from shared.model.rows import NewCallRow
url, worker, call, request = sys.argv[1:]
database = Database(url, process="child")
held = claims.claim(database, worker, call, request, "grant")
writer = JournalWriter(database, host="h1")
writer.append(held, NewCallRow("turn_requested"))
print("sent", flush=True)
writer.note(held, NewCallRow("turn_started"))
writer.append(held, NewCallRow("completed", result=b"1"))
print("told", flush=True)
writer.close()
"""


@pytest.mark.req("J03", "J05", "J07")
@pytest.mark.parametrize(
    ("crash_at", "said", "stored"),
    [
        ("before:turn_requested", [], ["prepared"]),
        ("after:turn_requested", [], ["prepared", "turn_requested"]),
        ("before:turn_started", ["sent"], ["prepared", "turn_requested"]),
        ("before:completed", ["sent"], ["prepared", "turn_requested"]),
        ("after:completed", ["sent"], ["prepared", "turn_requested", "turn_started", "completed"]),
        ("never", ["sent", "told"], ["prepared", "turn_requested", "turn_started", "completed"]),
    ],
)
def test_a_process_killed_around_a_commit_has_sent_nothing_that_is_not_on_record(
    farm: Farm, fresh_database: str, crash_at: str, said: list[str], stored: list[str]
) -> None:
    lease = farm.new_run()
    opened = farm.open(lease)
    worker = farm.new_worker()
    child = subprocess.run(
        [sys.executable, "-c", WRITES, fresh_database, worker, opened.call_id, opened.request_id],
        env={**os.environ, "CRW_CRASH_AT": crash_at},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == (0 if crash_at == "never" else -signal.SIGKILL), child.stderr
    assert child.stdout.split() == said
    # Where `turn_started` rides with the terminal row, a crash before either of them loses both.
    rows = [row.event for row in read.load_lean(farm.database, lease.run_id) if isinstance(row, CallRow)]
    assert rows == stored

"""Following a run while its database is killed and comes back."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from deploy.embedded import Postgres, Valkey
from scheduler.client import Farm
from shared.base.settings import Settings
from shared.journal.append import JournalWriter, RunRows
from shared.journal.database import Database
from shared.journal.upgrading import upgrade
from shared.model.rows import NewEventRow
from tests.journal_farm import Farm as JournalFarm
from tests.waiting import wait_until


@pytest.mark.req("J41", "RULE2")
def test_a_follower_gets_every_row_once_across_a_crash_of_the_database(tmp_path: Path, valkey: Valkey):
    with Postgres(tmp_path / "postgres") as server:
        url = server.database_url("postgres")
        upgrade(url)
        writer = JournalWriter(Database(url, process="writer"), host="h1")
        journal = JournalFarm(Database(url, process="journal"), writer)
        lease = journal.new_run()
        seen: list[int] = []

        def log(number: int) -> None:
            writer.submit(RunRows(lease, events=(NewEventRow("log", {"message": str(number)}),))).result(60)

        with Farm(settings=Settings(database_url=url, broker_url=valkey.url, poll_seconds=0.2)) as farm:
            cursor = farm.cursor(lease.run_id)
            follower = threading.Thread(target=lambda: seen.extend(row.seq for row in cursor.follow()))
            follower.start()
            for number in range(5):
                log(number)
            wait_until(lambda: cursor.seq >= 5, 10, "the first rows to be followed")
            server.kill()
            server.start()
            for number in range(5, 10):
                log(number)
            end = NewEventRow("finished", {"status": "completed", "result": None})
            writer.submit(RunRows(lease, events=(end,), finish=True)).result(60)
            follower.join(60)
            assert not follower.is_alive() and seen == list(range(1, 12))
        writer.close()

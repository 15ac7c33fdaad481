"""A farm of real processes for tests: a database of its own, a broker of its own, workers and schedulers.

Everything that was started is stopped at the end, by force if need be; every process
dies with the test process (the kernel sees to it), so a killed test leaves nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.embedded import Postgres, Valkey
from shared.base.canonical import digest_bytes
from shared.journal import read
from shared.journal.database import Database
from shared.journal.submit import submit
from shared.model.rows import CallRow, EventRow, Row
from shared.model.spec import RunSpec
from tests.nursery import ROOT, Process, shared_nursery
from tests.waiting import wait_until

__all__ = ["LEASE_SECONDS", "ROOT", "Farm", "Process"]

LEASE_SECONDS = 2.0
_NO_COMMIT = "0" * 40


class Farm:
    """Services and processes of one farm.

    Shape: `settings` are `CRW_*` values for every process; `start_worker` and
    `start_scheduler` take more for one of them. `look_seconds` is how soon they look after
    silent hosts and busy threads; None as the product does.
    """

    look_seconds: float | None = None

    def __init__(self, directory: Path, postgres: Postgres, database_url: str, **settings: Any) -> None:
        self.directory = directory
        self.postgres = postgres
        self.database_url = database_url
        self.database = Database(database_url, process="test")
        self.valkey = Valkey(directory / "valkey")
        self.valkey.start()
        self.settings: dict[str, Any] = {
            "lease_seconds": LEASE_SECONDS,
            "sweep_seconds": 0.3,
            "poll_seconds": 0.3,
            "idle_claim_seconds": 1.0,
            "drain_seconds": 2.0,
            "min_free_bytes": 0,
            "log_level": "debug",
            **settings,
        }
        self.processes: list[Process] = []

    def env(self, **more: Any) -> dict[str, str]:
        """The environment of a process of this farm: nothing of the caller's own settings."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("CRW_", "CELERY_"))}
        env |= {"PYTHONPATH": str(ROOT), "HOME": str(self.directory), "PYTHONUNBUFFERED": "1"}
        values = {"database_url": self.database_url, "broker_url": self.valkey.url, **self.settings, **more}
        return env | {f"CRW_{name.upper()}": str(value) for name, value in values.items()}

    def start_worker(self, host: str = "h1", *, role: str = "worker", **settings: Any) -> Process:
        """A worker host; its state directory is `state-<host>` unless told otherwise."""
        settings = {"host_name": host, "state_dir": self.directory / f"state-{host}", **settings}
        return self._start(role, f"worker-{host}", settings)

    def start_scheduler(self, name: str = "s1", **settings: Any) -> Process:
        """A scheduler process."""
        return self._start("scheduler", f"scheduler-{name}", settings)

    def _start(self, role: str, name: str, settings: Mapping[str, Any]) -> Process:
        log = self.directory / f"{name}.log"
        process = shared_nursery().fork(role, name, self.env(**settings), log, look_seconds=self.look_seconds)
        self.processes.append(process)
        return process

    def wait_up(self, *processes: Process, deadline_seconds: float = 20.0) -> None:
        """Wait until these workers and schedulers say that they work."""
        for process in processes or self.processes:
            wait_until(
                lambda process=process: process.said('"up"') or not process.alive,
                deadline_seconds,
                f"{process.name} to be up; its log is {process.log}",
            )
            assert process.alive, process.log.read_text(errors="replace")[-3000:]

    def submit(self, script: str, args: Any = None, *, key: str | None = None, **spec: Any) -> str:
        """Submit a run of this script text; the run's id. `spec` replaces members of its spec."""
        raw = script.encode()
        sources = {"flow.py": digest_bytes(raw)}
        values: dict[str, Any] = {
            "workflow": "flow.py", "script": "flow.py", "sources": sources, "args": args, "hub": "none",
            "base": _NO_COMMIT, "target": "", "roles": {}, **spec,
        }  # fmt: skip
        return submit(self.database, RunSpec(**values), {"flow.py": raw}, key).run_id

    def rows(self, run_id: str) -> list[Row]:
        """All rows of a run."""
        return list(read.load(self.database, run_id))

    def call_rows(self, run_id: str, *events: str) -> list[CallRow]:
        """Its call rows, of these events if some are named."""
        rows = (row for row in self.rows(run_id) if isinstance(row, CallRow))
        return [row for row in rows if not events or row.event in events]

    def finished(self, run_id: str) -> EventRow | None:
        """The run's `finished` row, when it is there."""
        rows = [row for row in self.rows(run_id) if isinstance(row, EventRow) and row.kind == "finished"]
        assert len(rows) <= 1, "a run ends once"
        return rows[0] if rows else None

    def wait_finished(self, run_id: str, deadline_seconds: float = 30.0) -> EventRow:
        """The run's `finished` row, waited for."""
        try:
            row = wait_until(lambda: self.finished(run_id), deadline_seconds, f"run {run_id} to finish")
        except AssertionError as error:
            last = "\n".join(str(row) for row in self.rows(run_id)[-8:])
            raise AssertionError(f"{error}; logs in {self.directory}; last rows:\n{last}") from None
        assert row is not None
        return row

    def check_rows(self, run_id: str) -> None:
        """What holds for the rows of any run: dense numbers, one end an attempt, after it a resume's word at most."""
        rows = self.rows(run_id)
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        ended: set[tuple[str, int]] = set()
        superseded: set[tuple[str, int]] = set()
        terminal = {"completed", "null_model", "refused", "held", "outcome_unknown", "superseded", "withdrawn"}
        for row in rows:
            if isinstance(row, CallRow):
                attempt = (row.call_id, row.attempt)
                assert attempt not in ended or row.event == "superseded", f"a row after the terminal row: {row}"
                assert attempt not in superseded, f"a row after the attempt was superseded: {row}"
                if row.event in terminal:
                    ended.add(attempt)
                if row.event == "superseded":
                    superseded.add(attempt)

    def close(self) -> None:
        """Stop everything that was started."""
        for process in self.processes:
            process.signal(signal.SIGCONT)
            process.signal(signal.SIGTERM)
        end = time.monotonic() + 5
        for process in self.processes:
            process.end(max(0.1, end - time.monotonic()))
        self.database.close()
        self.valkey.close()
        for host in self.directory.glob("state-*"):
            shutil.rmtree(host, ignore_errors=True)

"""A farm of real processes for tests: a database of its own, a broker of its own, workers and schedulers.

Everything that was started is stopped at the end, by force if need be; every process
dies with the test process (the kernel sees to it), so a killed test leaves nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.embedded import Postgres, Valkey
from shared.base.canonical import digest_bytes
from shared.base.command import die_with_parent
from shared.journal import read
from shared.journal.database import Database
from shared.journal.meta import upgrade
from shared.journal.submit import submit
from shared.model.rows import CallRow, EventRow, Row
from shared.model.spec import RunSpec
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
LEASE_SECONDS = 2.0
_NO_COMMIT = "0" * 40


class Process:
    """One process of the farm, its log beside it."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        # A process that is started again adds to the log of the one before it.
        self._log_begins = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as sink:
            self.child = subprocess.Popen(
                list(argv),
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.child.poll() is None

    def kill(self) -> None:
        """SIGKILL to the process alone: what it started is left to its own devices, as after a crash."""
        self.child.kill()
        self.child.wait()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.child.send_signal(number)

    def terminate(self, deadline_seconds: float = 15.0) -> int:
        """SIGTERM, and its exit status."""
        self.child.terminate()
        return self.child.wait(deadline_seconds)

    def end(self) -> None:
        """End it and its whole process group, whatever state it is in."""
        if self.alive:
            self.child.send_signal(signal.SIGCONT)
            self.child.terminate()
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()

    def said(self, words: str) -> bool:
        """Whether its log holds these words."""
        return words.encode() in self.log.read_bytes()[self._log_begins :]


class Farm:
    """Services and processes of one farm.

    Shape: `settings` are `CRW_*` values for every process; `start_worker` and
    `start_scheduler` take more for one of them.
    """

    def __init__(
        self, directory: Path, postgres: Postgres, database_url: str, *, upgraded: bool = False, **settings: Any
    ) -> None:
        self.directory = directory
        self.postgres = postgres
        self.database_url = database_url
        if not upgraded:
            upgrade(database_url)
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

    def start_worker(self, host: str = "h1", *, module: str = "tests.farm_worker", **settings: Any) -> Process:
        """A worker host; its state directory is `state-<host>` unless told otherwise."""
        settings = {"host_name": host, "state_dir": self.directory / f"state-{host}", **settings}
        return self._start(f"worker-{host}", module, settings)

    def start_scheduler(self, name: str = "s1", *, module: str = "tests.farm_scheduler", **settings: Any) -> Process:
        """A scheduler process."""
        return self._start(f"scheduler-{name}", module, settings)

    def _start(self, name: str, module: str, settings: Mapping[str, Any]) -> Process:
        env = self.env(**settings)
        process = Process(name, [sys.executable, "-m", module], env, self.directory / f"{name}.log")
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
            if process.alive:
                process.child.send_signal(signal.SIGCONT)
                process.child.terminate()
        end = time.monotonic() + 5
        for process in self.processes:
            try:
                process.child.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.child.kill()
                process.child.wait()
        self.database.close()
        self.valkey.close()
        for host in self.directory.glob("state-*"):
            shutil.rmtree(host, ignore_errors=True)

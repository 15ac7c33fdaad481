"""Workers and schedulers of tests, forked from a process that has imported them: a tenth of what a start costs.

The child is what `python -m` would have made: a session of its own, its environment,
its log, nothing read before the fork but code.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from shared.base.command import die_with_parent
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SEED = {"PYTHONHASHSEED": "0"}


class Process:
    """A worker or scheduler of a farm. Shape: `name`; its `log`, to which one that is started again adds; its `pid`."""

    def __init__(self, name: str, pid: int, log: Path, log_begins: int) -> None:
        self.name = name
        self.pid = pid
        self.log = log
        self._log_begins = log_begins
        self._status: int | None = None
        self._handle: int | None = None
        with suppress(ProcessLookupError):  # it may have ended by now
            self._handle = os.pidfd_open(pid)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return not self._has_ended(0)

    @property
    def stopped(self) -> bool:
        """Whether it is frozen."""
        try:
            return (Path("/proc") / str(self.pid) / "stat").read_text().rpartition(")")[2].split()[0] == "T"
        except OSError:
            return False

    def signal(self, number: int) -> None:
        """Send it a signal, if it is still there to get one."""
        if self._handle is not None and self.alive:
            signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """SIGKILL to the process alone, and its end: what it started is left to its own devices, as after a crash."""
        self.signal(signal.SIGKILL)
        self.wait(10)

    def terminate(self, deadline_seconds: float = 15.0) -> int:
        """SIGTERM, and its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(deadline_seconds)

    def end(self, deadline_seconds: float = 5.0) -> None:
        """End it, whatever state it is in, and let go of it."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if not self._has_ended(deadline_seconds):
            self.kill()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def wait(self, seconds: float) -> int:
        """Its exit status, minus the signal's number if it was killed.

        Raises:
            AssertionError: it has not ended after so many seconds.
        """
        assert self._has_ended(seconds), f"{self.name} has not ended in {seconds} s; its log is {self.log}"
        if self._status is None:
            left = status_file(self.log, self.pid)
            wait_until(left.exists, 5, f"the exit status of {self.name}")
            self._status = int(left.read_text())
            left.unlink()
        return self._status

    def said(self, words: str) -> bool:
        """Whether its log holds these words."""
        try:
            return words.encode() in self.log.read_bytes()[self._log_begins :]
        except FileNotFoundError:
            return False  # it has been forked and has not come to its log yet

    def _has_ended(self, seconds: float) -> bool:
        return self._handle is None or bool(select.select([self._handle], [], [], seconds)[0])


class Nursery:
    """The process that forks, and that dies with the one that started it. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery"],
            env={**os.environ, **SEED, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )

    def fork(
        self, role: str, name: str, env: Mapping[str, str], log: Path, *, look_seconds: float | None = None
    ) -> Process:
        """A new process.

        Args:
            role: `worker`, `bare_worker` (which does not know `noop`) or `scheduler`.
            look_seconds: how soon it looks after silent hosts and busy threads; None as the product does.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        begins = log.stat().st_size if log.exists() else 0
        # The seed is that of the process that forks: a child need not start itself again to have it.
        request = json.dumps({"role": role, "env": {**env, **SEED}, "log": str(log), "look_seconds": look_seconds})
        with self._lock:
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        return Process(name, answer["pid"], log, begins)

    def close(self) -> None:
        """End the process that forks, and with it what it has forked."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


@functools.cache
def shared_nursery() -> Nursery:
    """The one of this process, until it ends."""
    nursery = Nursery()
    atexit.register(nursery.close)
    return nursery


def status_file(log: Path, pid: int) -> Path:
    """Where the exit status of a process is left."""
    return log.with_name(f"{log.name}.{pid}.status")

"""Workers and schedulers, forked from a process that has imported them: a tenth of what a start costs.

The child is what `python -m` would have made: a session of its own, its environment,
its log, nothing read before the fork but code. Run as `python -m tests.drill.nursery`,
it reads one JSON request a line and answers with the child's pid.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import scheduler.flow.silence
import scheduler.lost_calls
import scheduler.resume.host_questions
import scheduler.service
import workers.app
import workers.call.leftovers
import workers.ops.op
import workers.reconcile.lookup
from shared.base.command import die_with_parent
from shared.base.crashpoint import arm
from shared.base.errors import WorktreeError
from shared.model import ops
from workers.ops.noop import Noop

ROOT = Path(__file__).resolve().parents[2]
# A run says after ten seconds which silent host it waits for, a worker asks for five after a thread that is open
# elsewhere; a drill has no patience.
_LOOK_SECONDS = 0.5
_SEED = {"PYTHONHASHSEED": "0"}


class Child:
    """A forked process. Shape: `name`, its `log`, its `pid`; it is nobody's child here, so only its end is told."""

    def __init__(self, name: str, pid: int, log: Path) -> None:
        self.name = name
        self.pid = pid
        self.log = log
        self._handle: int | None = os.pidfd_open(pid)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._handle is not None and not select.select([self._handle], [], [], 0)[0]

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
        """SIGKILL, and wait for its end."""
        self.signal(signal.SIGKILL)
        self.wait(10)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        return self._handle is None or bool(select.select([self._handle], [], [], seconds)[0])

    def close(self) -> None:
        """End it for good."""
        self.kill()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def said(self, words: str) -> bool:
        """Whether its log holds these words."""
        try:
            return words in self.log.read_text(errors="replace")
        except FileNotFoundError:
            return False  # it has been forked and has not come to its log yet


class Nursery:
    """The process that forks; ended with this object. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.drill.nursery"],
            env={**os.environ, **_SEED, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )

    def fork(self, role: str, name: str, env: Mapping[str, str], log: Path) -> Child:
        """A new `worker` or `scheduler`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        # The seed is that of the process that forks: a child need not start itself again to have it.
        request = json.dumps({"role": role, "env": {**env, **_SEED}, "log": str(log)})
        with self._lock:
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        return Child(name, answer["pid"], log)

    def close(self) -> None:
        """End the process that forks; its children are ended by those who asked for them."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def _refuse_to_remove(_git: Any, _mirror: Path, path: Path) -> None:
    raise WorktreeError(f"{path} cannot be removed: something of it is in use", path=str(path))


def _run_worker() -> int:
    workers.ops.op.register(Noop())
    workers.reconcile.lookup._BUSY_SECONDS = _LOOK_SECONDS
    if "CRW_KEEP_DIRECTORIES" in os.environ:
        workers.call.leftovers.remove_worktree = _refuse_to_remove
    return workers.app.main()


def _run_scheduler() -> int:
    ops.register(ops.NOOP)
    scheduler.flow.silence.LOOK_SECONDS = _LOOK_SECONDS
    scheduler.lost_calls.LOOK_SECONDS = _LOOK_SECONDS
    scheduler.resume.host_questions._SILENT_SECONDS = _LOOK_SECONDS
    return scheduler.service.main()


_MAINS: dict[str, Callable[[], int]] = {"worker": _run_worker, "scheduler": _run_scheduler}


def _become(request: Mapping[str, Any]) -> None:
    """Be that process until its end."""
    os.setsid()
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, (path, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), (request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)]
    ):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(request["env"])
    arm(os.environ)
    sys.argv = [request["role"]]
    # What starts another process like this one.
    sys.orig_argv = [sys.executable, "-m", f"tests.farm_{request['role']}"]
    status = 1
    try:
        status = _MAINS[request["role"]]()
    finally:
        sys.stdout.flush()
        os._exit(status)


def main() -> None:
    """Fork for each line of standard input; end with it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(1)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.close(answers)
            _become(request)
        os.write(answers, json.dumps({"pid": pid}).encode() + b"\n")


if __name__ == "__main__":
    main()

"""The process that forks: `python -m tests.nursery` answers each line, a JSON request, with a child's pid."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import scheduler.flow.silence
import scheduler.lost_calls
import scheduler.resume.host_questions
import scheduler.service
import workers.app
import workers.call.leftovers
import workers.reconcile.lookup
from shared.base.command import die_with_parent
from shared.base.crashpoint import arm
from shared.base.errors import WorktreeError
from shared.model import ops
from tests.nursery import status_file
from workers.ops.noop import Noop
from workers.ops.op import register as register_op


def _refuse_to_remove(_git: Any, _mirror: Path, path: Path) -> None:
    raise WorktreeError(f"{path} cannot be removed: something of it is in use", path=str(path))


def _run_worker() -> int:
    register_op(Noop())
    return _run_bare_worker()


def _run_bare_worker() -> int:
    if "CRW_KEEP_DIRECTORIES" in os.environ:
        workers.call.leftovers.remove_worktree = _refuse_to_remove
    return workers.app.main()


def _run_scheduler() -> int:
    ops.register(ops.NOOP)
    return scheduler.service.main()


def _look_after(seconds: float) -> None:
    """Be less patient than the product: it names a silent host after ten seconds, asks for five after a busy thread."""
    workers.reconcile.lookup._BUSY_SECONDS = seconds
    scheduler.flow.silence.LOOK_SECONDS = seconds
    scheduler.lost_calls.LOOK_SECONDS = seconds
    scheduler.resume.host_questions._SILENT_SECONDS = seconds


_MAINS: dict[str, Callable[[], int]] = {
    "worker": _run_worker,
    "bare_worker": _run_bare_worker,
    "scheduler": _run_scheduler,
}


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
    role = request["role"]
    if request["look_seconds"] is not None:
        _look_after(request["look_seconds"])
    sys.argv = [role]
    # What starts another process like this one.
    sys.orig_argv = [sys.executable, "-m", "workers.app" if role == "bare_worker" else f"tests.farm_{role}"]
    status = 1
    try:
        status = _MAINS[role]()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - what an interpreter does with it, in a process that goes round its end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def main() -> None:
    """Fork for each line of standard input; end with it. A child's exit status is left beside its log."""
    logs: dict[int, Path] = {}

    def reap(*_: object) -> None:
        # The signal may come while the loop below does the same: each child is one's alone.
        for pid, log in list(logs.items()):
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
            if ended:
                del logs[pid]
                left = status_file(log, pid)
                with suppress(OSError):  # its directory may be gone with its test
                    left.with_suffix(".new").write_text(str(os.waitstatus_to_exitcode(status)))
                    left.with_suffix(".new").rename(left)

    signal.signal(signal.SIGCHLD, reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(1)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.close(answers)
            _become(request)
        logs[pid] = Path(request["log"])
        reap()  # it may have ended before it was known
        os.write(answers, json.dumps({"pid": pid}).encode() + b"\n")


if __name__ == "__main__":
    main()

"""Run a child process with a deadline, in a process group of its own, and leave none behind.

Output goes to a file on disk while the command runs, so that a talkative command
costs no memory and a killed one keeps what it said. The child dies with this
process (parent-death signal), its group is killed on a deadline or a stop.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

KILL_GRACE_SECONDS = 3.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

Marking = Callable[[int], AbstractContextManager[None]]
_marking: Marking = lambda pid: contextlib.nullcontext()  # noqa: E731 - what a process does that marks nothing


@dataclass(frozen=True)
class Ended:
    """How a child ended. `exit_status` is negative for a signal; `timed_out`/`stopped` say who ended it."""

    exit_status: int
    seconds: float
    timed_out: bool = False
    stopped: bool = False


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to signal the calling process when the thread that made it ends: a `preexec_fn`."""
    _libc.prctl(_PR_SET_PDEATHSIG, number)


def mark_children(marking: Marking) -> None:
    """Have every child of this process marked while it runs."""
    global _marking
    _marking = marking


def marked(pid: int) -> AbstractContextManager[None]:
    """Mark a child that leads its session, in the way this process marks its children."""
    return _marking(pid)


def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: Path,
    timeout_seconds: float,
    should_stop: Callable[[], bool] = lambda: False,
) -> Ended:
    """Run `argv` to its end, its output and errors together in the file `output`.

    Args:
        should_stop: asked several times a second; true ends the command as its deadline would.

    Raises:
        OSError: the program cannot be started.
    """
    started = time.monotonic()
    with open(output, "wb") as sink:
        child = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    timed_out = stopped = False
    with marked(child.pid):
        try:
            while True:
                try:
                    child.wait(0.1)
                    break
                except subprocess.TimeoutExpired:
                    timed_out = time.monotonic() - started > timeout_seconds
                    stopped = should_stop()
                    if timed_out or stopped:
                        break
        finally:
            # Also after a normal end: what the command left running in its group has no owner any more.
            kill_group(child)
    return Ended(child.returncode, time.monotonic() - started, timed_out, stopped)


def kill_group(
    child: subprocess.Popen[bytes], grace_seconds: float = KILL_GRACE_SECONDS, *, give_up_seconds: float | None = None
) -> None:
    """End a child's whole process group: SIGTERM, a grace, SIGKILL. The child must lead its own session.

    Args:
        give_up_seconds: how long its end is waited for; None for as long as it takes.
    """
    if child.poll() is None:
        _signal_group(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_seconds)
    _signal_group(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(give_up_seconds)


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)

"""Programs as a user starts them, and the proof that they left nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from shared.base.command import die_with_parent, kill_group
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
CRW = (sys.executable, "-P", "-m", "scheduler.cli.main")


def user_environment(home: Path, **variables: str) -> dict[str, str]:
    """The environment of somebody whose home is `home` and who has configured nothing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CRW_", "XDG_", "GIT_"))}
    return kept | {"HOME": str(home), "PYTHONPATH": str(ROOT)} | variables


@contextmanager
def started(
    argv: tuple[str, ...], environment: dict[str, str], cwd: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a session of its own, its output in `log`; killed with its group at the end if it still runs."""
    with open(log, "wb") as sink:
        program = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, env=environment, cwd=cwd,
            start_new_session=True, preexec_fn=die_with_parent,
        )  # fmt: skip
    try:
        yield program
    finally:
        kill_group(program, grace_seconds=20)


def wait_for_words(log: Path, words: str, program: subprocess.Popen[bytes], deadline_seconds: float) -> None:
    """Wait until a program has said something."""

    def said() -> bool:
        text = log.read_text(errors="replace")
        assert program.poll() is None or words in text, f"it ended with {program.returncode}:\n{text[-3000:]}"
        return words in text

    wait_until(said, deadline_seconds, f"{words!r} in {log}")


def running_with(directory: Path) -> list[str]:
    """Processes whose command line or environment names the directory."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            words = [*process.cmdline(), *process.environ().values()]
            if any(str(directory) in word for word in words):
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return found


def assert_nothing_runs(directory: Path) -> None:
    """Nothing of what a program started there is alive; the kernel gets a moment to reap."""
    wait_until(lambda: not running_with(directory), 5, f"the processes to end: {running_with(directory)}")

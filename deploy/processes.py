"""The farm's own processes as supervised children: start by module name, watch, stop by process group.

Every child leads a session of its own, so that a Ctrl-C of the terminal reaches the
parent alone, which then stops the children in an order of its choice; whatever a child
left in its group is killed by that group's number. The kernel ends a child with its
parent's thread, so a killed parent leaves none behind. Secrets travel in the environment.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from shared.base.command import die_with_parent
from shared.base.errors import CrwError

TAIL_LINES = 15


class ChildDied(CrwError):
    """A process that should run on has ended. Facts: name, exit_status, log."""

    reason = "child_died"


class Child:
    """One process of the farm, its output in a log file.

    Call `start` from a thread that lives as long as the child should.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        log: Path,
        environment: Mapping[str, str],
        cwd: Path,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        # -P: modules of the working directory must not stand in for the program's own.
        self._argv = [sys.executable, "-P", "-m", module, *arguments]
        self._environment = dict(environment)
        self._cwd = cwd
        self._pass_fds = pass_fds
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; the child must have been started."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def ended(self) -> int | None:
        """The status a started process ended with; None while it runs, or when it was never started."""
        return None if self._process is None else self._process.poll()

    def is_intact(self) -> bool:
        """A process keeps nothing that could be lost with it."""
        return True

    def start(self) -> None:
        """Start the process, also once more after it ended; its output is appended to the log."""
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._cwd,
                env=self._environment,
                start_new_session=True,
                preexec_fn=die_with_parent,
                pass_fds=self._pass_fds,
            )

    def check(self) -> None:
        """Raise when the process has ended.

        Raises:
            ChildDied: with the end of its log.
        """
        if self.ended is not None:
            raise self.death()

    def death(self) -> ChildDied:
        """What to say when the process has ended and should not have: with the end of its log."""
        return ChildDied(
            f"{self.name} ended with status {self.ended}; the end of {self.log}:\n{self.tail()}",
            name=self.name,
            exit_status=self.ended,
            log=str(self.log),
        )

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of the log, indented."""
        with contextlib.suppress(OSError):
            return "\n".join(f"    {line}" for line in self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def ask_to_stop(self) -> None:
        """SIGTERM to the process itself; what it started is its own to stop."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the process alone: what it started is left to its own devices, as after a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, grace_seconds: float) -> None:
        """End the process: SIGTERM, the grace, then SIGKILL to all that is left of its group."""
        if self._process is None:
            return
        self.ask_to_stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_seconds)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def stop_all(children: Sequence[Child], grace_seconds: float) -> None:
    """Stop children side by side, all within one grace."""
    for child in children:
        child.ask_to_stop()
    end = time.monotonic() + grace_seconds
    for child in children:
        child.stop(max(0.1, end - time.monotonic()))


def listen(address: str, port: int) -> socket.socket:
    """A listening socket to hand to a child: on this port, or on a free one when it is taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listening = socket.create_server((address, port), family=family)
    except OSError:
        listening = socket.create_server((address, 0), family=family)
    listening.setblocking(False)
    return listening


def clean_environment(**variables: str) -> dict[str, str]:
    """This process's environment without any `CRW_*` setting, and these instead."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CRW_")}
    return kept | variables


def program() -> str:
    """How the user can type `crw` here: by its name, or by its path when it is not on PATH."""
    installed = Path(sys.executable).with_name("crw")
    if shutil.which("crw") is not None or not installed.exists():
        return "crw"
    with contextlib.suppress(ValueError):
        return str(installed.relative_to(Path.cwd()))
    return str(installed)

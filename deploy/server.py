"""One bundled server as a supervised child: start, wait until it answers, stop, and for tests kill and freeze.

Its unix sockets lie in a directory of its own below the system's one for temporary
files. The directory is locked while its owner lives, so that the next owner can tell
what a killed one left and remove it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from shared.base.errors import CrwError

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_PREFIX = "crw-"
START_SECONDS = 30.0
STOP_SECONDS = 15.0


class EmbeddedError(CrwError):
    """A bundled server did not start; the sentence says where its log is."""

    reason = "embedded"


def _die_with_parent(number: int) -> Callable[[], None]:
    def set_signal() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)

    return set_signal


class Server:
    """One supervised child: start, wait until it answers, stop, and for tests kill and freeze."""

    name = "server"
    stop_signal = signal.SIGTERM

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / f"{self.name}.log"
        # Socket paths are limited to 107 bytes, so they do not lie in a directory of the caller's.
        remove_abandoned(self.name)
        self._lock: int | None
        self.sockets, self._lock = _make_sockets(self.name)
        self.child: subprocess.Popen[bytes] | None = None

    def _argv(self) -> Sequence[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start the server and return when it answers.

        Call it from a thread that lives as long as the server should: the kernel ties
        the child to the thread that made it.

        Raises:
            EmbeddedError: it ended at once or did not answer in time.
        """
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                self._argv(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent(self.stop_signal),
                cwd="/",
            )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.child.poll() is not None or time.monotonic() > end:
                tail = self.log.read_text(errors="replace").strip().splitlines()[-1:]
                self.stop()
                raise EmbeddedError(f"{self.name} did not start ({' '.join(tail)}); its log is {self.log}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Shut the server down in order, by force when it takes too long."""
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(self.stop_signal)
        self._wait(STOP_SECONDS)

    def close(self) -> None:
        """Stop for good: the socket directory goes too."""
        self.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def ended(self) -> int | None:
        """The status a started server ended with; None while it runs, or when it was never started."""
        return None if self.child is None else self.child.poll()

    def is_intact(self) -> bool:
        """Whether what the server keeps on disk is still there, so that a start brings it back as it was."""
        raise NotImplementedError

    def kill(self) -> None:
        """SIGKILL, as a power cut would end it; `start` brings it back on its data."""
        self._wait(0)

    def freeze(self) -> None:
        """Stop the server's processes without ending them (SIGSTOP)."""
        self._signal_group(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._signal_group(signal.SIGCONT)

    def _signal_group(self, number: int) -> None:
        if self.child is not None and self.child.poll() is None:
            os.killpg(self.child.pid, number)

    def _wait(self, seconds: float) -> None:
        if self.child is None:
            return
        try:
            self.child.wait(seconds or 0.001)
        except subprocess.TimeoutExpired:
            self._signal_group(signal.SIGKILL)
            self.child.wait()


def _make_sockets(name: str) -> tuple[Path, int]:
    """A directory for sockets, and the descriptor that holds its lock while this process lives."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{name}-"))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_SH)
            # Between making and locking it somebody may have taken it for abandoned.
            if path.exists():
                return path, lock
            os.close(lock)


def remove_abandoned(name: str) -> int:
    """Remove the empty directories of servers whose owner was killed; how many there were."""
    removed = 0
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}{name}-*"):
        # Another user's is not ours to remove, and one with a socket in it may still be served.
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.rmdir()
                removed += 1
            finally:
                os.close(lock)
    return removed

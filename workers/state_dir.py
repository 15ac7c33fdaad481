"""The state directory: what makes a process this host's one worker.

A host is one state directory. Its lock is held by the worker and inherited by the
App Server, so that it is free only when both are gone: whoever has it may take an
absence for a proof. Two random ids lie beside it: a wiped or cloned directory is
another host, and says so.
Source: rules of the protocol, 4, 5 and 6.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from shared.base.disk import check_room, free_bytes
from shared.base.errors import UsageError
from shared.base.log import get_logger

_TAKE_OVER_SECONDS = 5.0
log = get_logger()


@dataclass(frozen=True)
class ProcessName:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessName:
        """The name of a living process.

        Raises:
            psutil.NoSuchProcess: there is none.
        """
        # Ticks since boot, as the kernel counts them: unlike a wall-clock start time they never shift.
        with open(f"/proc/{pid}/stat", "rb") as source:
            return cls(pid, source.read().rpartition(b")")[2].split()[19].decode())

    def is_alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        try:
            return ProcessName.of(self.pid) == self and psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except (OSError, psutil.NoSuchProcess):
            return False


class StateDirectory:
    """An open, locked state directory.

    Writes: `worker.lock` (who holds it, as JSON), `host-id`, `home-id`, `space-alarm` (its time is the last alarm's).
    """

    def __init__(self, path: Path, host: str, min_free_bytes: int) -> None:
        """Make the directory and take its lock.

        Raises:
            UsageError: it cannot be written, is too full, or a live worker has it.
        """
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self.lock_fd = os.open(path / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(
                f"state_dir {path} cannot be written ({error.strerror}); name one that can, with CRW_STATE_DIR"
            ) from None
        check_room(path, min_free_bytes)
        self._take_lock()
        self._write_record(host, ProcessName.of(os.getpid()))
        self._space_file = path / "space-alarm"
        if not self._space_file.exists():
            self._space_file.touch()
        self.host_id = self._random_id("host-id")
        self.home_id = self._random_id("home-id")

    @property
    def space_mark(self) -> int:
        """Names the last alarm of free space: equal marks say that there was none between them."""
        return self._space_file.stat().st_mtime_ns

    def mark_space_alarm(self) -> None:
        """Remember that space ran out. The time of a file that is there takes no space to change."""
        os.utime(self._space_file)

    def free_bytes(self) -> int:
        """Free space where the directory lies."""
        return free_bytes(self.path)

    def close(self) -> None:
        """Let the lock go; a child that inherited it still has it."""
        os.close(self.lock_fd)

    def _take_lock(self) -> None:
        end = time.monotonic() + _TAKE_OVER_SECONDS
        while not self._try_lock():
            # Read each time: two workers may be starting at once, and the other one be faster.
            host, worker = self._read_record()
            if worker is not None and worker.is_alive():
                raise UsageError(
                    f"state_dir {self.path} is in use by the worker of host {host} (pid {worker.pid}); "
                    "a host has one worker: stop that one, or give this one a state_dir and a host_name of its own"
                )
            if time.monotonic() > end:
                raise UsageError(
                    f"state_dir {self.path} is locked by a process that a dead worker (pid "
                    f"{worker.pid if worker else 'unknown'}) left and that cannot be ended from here; end it first"
                )
            if worker is not None:
                self._end_heirs(worker.pid)
            time.sleep(0.05)

    def _end_heirs(self, dead_pid: int) -> None:
        """Kill what has inherited a dead worker's lock: its App Server, and commands the server left running."""
        lock = os.fstat(self.lock_fd)
        for process in psutil.process_iter():
            if process.pid != os.getpid() and _inherited(process.pid, lock, dead_pid):
                log.warning("heir_killed", pid=process.pid, dead=dead_pid)
                with contextlib.suppress(psutil.Error):
                    process.kill()

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self.lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _read_record(self) -> tuple[str, ProcessName | None]:
        try:
            record = json.loads(os.pread(self.lock_fd, 4096, 0))
            return str(record["host"]), ProcessName(int(record["pid"]), str(record["started"]))
        except (ValueError, TypeError, KeyError):
            return "unknown", None

    def _write_record(self, host: str, worker: ProcessName) -> None:
        text = json.dumps({"host": host, "pid": worker.pid, "started": worker.started}).encode()
        os.pwrite(self.lock_fd, text, 0)
        os.ftruncate(self.lock_fd, len(text))

    def _random_id(self, name: str) -> str:
        path = self.path / name
        if path.exists() and (known := path.read_text().strip()):
            return known
        fresh = secrets.token_hex(16)
        # Whole or not at all: half an id would make another host of this one at the next start.
        draft = path.with_suffix(".new")
        draft.write_text(fresh + "\n")
        os.replace(draft, path)
        return fresh


def _inherited(pid: int, lock: os.stat_result, dead_pid: int) -> bool:
    """Whether a process has the lock through a descriptor that the dead worker locked.

    Another worker that is just starting has the same file open too, but not that lock.
    """
    descriptors = Path(f"/proc/{pid}/fd")
    try:
        for descriptor in descriptors.iterdir():
            with contextlib.suppress(FileNotFoundError):
                found = descriptor.stat()
                if (found.st_dev, found.st_ino) != (lock.st_dev, lock.st_ino):
                    continue
                # A line of fdinfo: `lock: 1: FLOCK  ADVISORY  WRITE <pid that locked> ...`
                for line in Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text().splitlines():
                    words = line.split()
                    if words[:1] == ["lock:"] and "FLOCK" in words and words[5] == str(dead_pid):
                        return True
    except OSError:
        return False
    return False


def boot_id() -> str:
    """The id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

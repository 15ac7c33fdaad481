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
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

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

    Writes: `worker.lock` (who holds it, as JSON), `host-id`, `home-id`.
    """

    def __init__(self, path: Path, host: str, min_free_bytes: int) -> None:
        """Make the directory and take its lock.

        Raises:
            UsageError: it cannot be written, is too full, or a live worker has it.
        """
        self.path = path
        self._min_free_bytes = min_free_bytes
        try:
            path.mkdir(parents=True, exist_ok=True)
            self.lock_fd = os.open(path / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(
                f"state_dir {path} cannot be written ({error.strerror}); name one that can, with CRW_STATE_DIR"
            ) from None
        if self.free_bytes() < min_free_bytes:
            raise UsageError(
                f"state_dir {path} has {self.free_bytes() >> 20} MiB free and needs {min_free_bytes >> 20} MiB; "
                "free some or lower min_free_bytes"
            )
        self._take_lock()
        self._record: dict[str, Any] = {"host": host, "worker": _as_json(ProcessName.of(os.getpid())), "server": None}
        self._write_record()
        self.host_id = self._random_id("host-id")
        self.home_id = self._random_id("home-id")

    def free_bytes(self) -> int:
        """Free space where the directory lies."""
        return shutil.disk_usage(self.path).free

    def is_low(self) -> bool:
        """Whether there is less space than the farm wants to work with."""
        return self.free_bytes() < self._min_free_bytes

    def record_server(self, pid: int | None) -> None:
        """Note the App Server that has inherited the lock (the leader of its process group), or that it is gone."""
        self._record["server"] = None if pid is None else _as_json(ProcessName.of(pid))
        self._write_record()

    def close(self) -> None:
        """Let the lock go; a child that inherited it still has it."""
        os.close(self.lock_fd)

    def _take_lock(self) -> None:
        end = time.monotonic() + _TAKE_OVER_SECONDS
        while not self._try_lock():
            # Read each time: two workers may be starting at once, and the other one be faster.
            holder = self._read_record()
            worker = _from_json(holder.get("worker"))
            if worker is not None and worker.is_alive():
                raise UsageError(
                    f"state_dir {self.path} is in use by the worker of host {holder.get('host')} (pid {worker.pid}); "
                    "a host has one worker: stop that one, or give this one a state_dir and a host_name of its own"
                )
            if time.monotonic() > end:
                raise UsageError(
                    f"state_dir {self.path} is locked by a process that a dead worker (pid "
                    f"{worker.pid if worker else 'unknown'}) left and that cannot be ended from here; end it first"
                )
            server = _from_json(holder.get("server"))
            if server is not None and server.is_alive():
                log.warning("old_server_killed", pid=server.pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(server.pid, signal.SIGKILL)
            time.sleep(0.05)

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self.lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _read_record(self) -> dict[str, Any]:
        try:
            record = json.loads(os.pread(self.lock_fd, 4096, 0) or b"{}")
        except ValueError:
            return {}
        return record if isinstance(record, dict) else {}

    def _write_record(self) -> None:
        text = json.dumps(self._record).encode()
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


def _as_json(process: ProcessName) -> dict[str, Any]:
    return {"pid": process.pid, "started": process.started}


def _from_json(data: Any) -> ProcessName | None:
    try:
        return ProcessName(int(data["pid"]), str(data["started"]))
    except (TypeError, KeyError, ValueError):
        return None


def boot_id() -> str:
    """The id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

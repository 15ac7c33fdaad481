"""Markers of the processes a worker has started, so that its successor ends what a death left running.

The kernel ends a worker's own children with it, but not what those have started: a shell
of a verify dies, its test run goes on. Every child leads a session of its own; its marker
names that session by pid, kernel start time and boot, and is gone with the child's
orderly end. Who takes the state directory's lock next ends what the markers still name.
Source: Task Monki document, "Configuration isolation" (process markers); design of the farm, "Health".

Writes: `<directory>/<pid>.json`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from shared.base.log import get_logger
from workers.state_dir import ProcessName, boot_id

log = get_logger()


class Markers:
    """The markers of one state directory. Safe from any thread: each process has a file of its own."""

    def __init__(self, directory: Path) -> None:
        """Make the directory. The caller holds the state directory's lock."""
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def holding(self, pid: int) -> Iterator[None]:
        """Mark a child while the block runs; at its end the child and its group are gone."""
        file = self._directory / f"{pid}.json"
        try:
            # A disk that is full costs the marker, not the child.
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                name = ProcessName.of(pid)
                file.write_text(json.dumps({"pid": pid, "started": name.started, "boot_id": boot_id()}))
            yield
        finally:
            file.unlink(missing_ok=True)

    def reap(self) -> int:
        """End what the markers of a dead worker name, and drop them.

        Returns:
            How many processes were ended.
        """
        ended = 0
        for file in self._directory.glob("*.json"):
            for process in _left_of(file):
                with contextlib.suppress(psutil.Error):
                    log.warning("orphan_killed", pid=process.pid, command=process.name())
                    process.kill()
                    ended += 1
            file.unlink(missing_ok=True)
        return ended


def _left_of(marker: Path) -> list[psutil.Process]:
    """The processes of a marker's session that still run; none when the pid is another process's by now."""
    try:
        record = json.loads(marker.read_text())
        leader = ProcessName(int(record["pid"]), str(record["started"]))
        if record["boot_id"] != boot_id():
            return []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    if psutil.pid_exists(leader.pid) and not leader.is_alive() and not _is_zombie(leader.pid):
        return []
    # While a session has members, its number is given to nobody else.
    return [process for process in psutil.process_iter() if _is_of(process.pid, leader)]


def _is_of(pid: int, leader: ProcessName) -> bool:
    try:
        return os.getsid(pid) == leader.pid and int(ProcessName.of(pid).started) >= int(leader.started)
    except (OSError, ValueError):
        return False


def _is_zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True

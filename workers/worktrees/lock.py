"""One lock per mirror around what changes its list of worktrees or its refs in bulk.

Two `git worktree add` at once kill each other on lock files. The lock is a file of
its own beside the mirror, so that it exists before the mirror does; it is free
again when its holder dies. Source: App Server document, "Working directories".
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.base.errors import WorktreeError

_POLL_SECONDS = 0.02


@contextmanager
def mirror_lock(mirror: Path, timeout_seconds: float) -> Iterator[None]:
    """Hold the mirror's lock; threads exclude each other as processes do.

    Raises:
        WorktreeError: another holder kept it for `timeout_seconds`.
    """
    mirror.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(mirror.with_name(mirror.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        end = time.monotonic() + timeout_seconds
        while not _taken(handle):
            if time.monotonic() > end:
                raise WorktreeError(f"the mirror {mirror} was locked for {timeout_seconds:.0f} s", mirror=str(mirror))
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""The directories of demos that were killed: told by a lock that nobody holds any more, and removed by the next demo.

A demo that is to leave nothing behind marks its directory with a locked file. One whose directory
is to stay, because it was asked to or because it failed, takes the mark away; so what still has
one, and no lock on it, is nobody's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "demo-"
_MARK = "in-use"


class DemoDirectory:
    """A directory of a demo's own, below `parent`; `path` is free of links. `close` removes it unless it is kept."""

    def __init__(self, parent: Path) -> None:
        """Make the directory, and remove those of killed demos beside it.

        Raises:
            OSError: it cannot be made.
        """
        parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(parent)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)).resolve()
        self._mark: Path | None = self.path / _MARK
        # Locked before it has its name: who finds the mark finds it held.
        nameless = self.path / f".{_MARK}"
        self._lock = os.open(nameless, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        nameless.rename(self._mark)

    def keep(self) -> None:
        """Leave the directory where it is, for good."""
        if self._mark is not None:
            self._mark.unlink(missing_ok=True)
            self._mark = None

    def close(self) -> None:
        """The demo is over."""
        if self._mark is not None:
            _remove(self.path)
        os.close(self._lock)


def remove_abandoned(parent: Path) -> int:
    """Remove what killed demos left in `parent`; how many directories there were."""
    removed = 0
    for mark in parent.glob(f"{_PREFIX}*/{_MARK}"):
        # Another user's, or one that somebody else removes now.
        with contextlib.suppress(OSError):
            lock = os.open(mark, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(mark.parent)
                removed += 1
            finally:
                os.close(lock)
    return removed


def _remove(directory: Path) -> None:
    # The mark goes last: what is left of a removal that was cut short is found by the next one.
    for entry in directory.iterdir():
        if entry.name == _MARK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)

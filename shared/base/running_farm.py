"""How other terminals find the farm that `crw up` runs: a note in its state directory, true while it runs.

`up.json` holds settings (addresses, the scripted provider); they stand below the
configuration and the environment, and count only while the process that wrote them
holds `up.lock`. A killed `crw up` loses the lock with its life, so a stale note
leads nobody astray.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from shared.base.errors import UsageError

_LOCK = "up.lock"
_NOTE = "up.json"
# A reader holds the lock for an instant, too; it must not keep a farm from starting.
_LOCK_TRIES = 20


def load_running_farm(state_dir: Path) -> dict[str, Any]:
    """The settings of the farm that runs on this state directory now; empty when none does."""
    try:
        with open(state_dir / _LOCK, "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                note: dict[str, Any] = json.loads((state_dir / _NOTE).read_text(encoding="utf-8"))
                return note
    except (OSError, ValueError):
        # No lock, or no note yet: the farm is not up.
        return {}
    return {}


class RunningFarm:
    """This process's claim to be the farm of a state directory.

    Writes: `up.lock`, held while this object is open, and `up.json`.
    """

    def __init__(self, state_dir: Path) -> None:
        """Take the lock.

        Raises:
            UsageError: another `crw up` has it, or the directory cannot be written.
        """
        self._note = state_dir / _NOTE
        try:
            state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(state_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(
                f"state_dir {state_dir} cannot be written ({error.strerror}); name one that can, with CRW_STATE_DIR"
            ) from None
        for _ in range(_LOCK_TRIES):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # What a killed predecessor left must not be read as this farm's.
                self._note.unlink(missing_ok=True)
                return
            time.sleep(0.05)
        os.close(self._lock)
        raise UsageError(f"crw up already runs on {state_dir}; use that farm, or name another CRW_STATE_DIR")

    @contextlib.contextmanager
    def announced(self, settings: Mapping[str, Any]) -> Iterator[Path]:
        """Let other terminals find these settings while the context is open."""
        fresh = self._note.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(dict(settings), file, indent=2)
        os.replace(fresh, self._note)
        try:
            yield self._note
        finally:
            self._note.unlink(missing_ok=True)

    def close(self) -> None:
        """Give the lock up."""
        os.close(self._lock)

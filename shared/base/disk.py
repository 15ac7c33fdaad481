"""Free space: the floor below which a state directory takes no work. Source: rules of the protocol, 6."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from shared.base.errors import UsageError


def free_bytes(path: Path) -> int:
    """Free space where `path` lies, or will lie when it is made."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if os.path.isdir(place))
    return shutil.disk_usage(there).free


def check_room(state_dir: Path, min_free_bytes: int) -> None:
    """Refuse a state directory with less than the floor of free space.

    Raises:
        UsageError: it says how much there is and how much there must be.
    """
    free = free_bytes(state_dir)
    if free < min_free_bytes:
        raise UsageError(
            f"state_dir {state_dir} has {free >> 20} MiB free and needs {min_free_bytes >> 20} MiB; "
            "free some or lower min_free_bytes"
        )

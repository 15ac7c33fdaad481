"""Keep the mirrors of a host small: pack what lies loose, drop what nothing names any more.

git does none of it by itself here (`gc.auto` is off), since a tree may be named by a row
only a moment after it was written. So a mirror is looked after now and then, under its own
lock, and only what nothing has named or touched for two weeks goes: what a run that was
cleaned left, a snapshot that nobody kept.
Source: rules of the protocol, 39.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

from shared.base.errors import GitError, WorktreeError
from shared.base.log import get_logger
from workers.worktrees.lock import mirror_lock
from workers.worktrees.mirror import Mirrors

# As many as git itself would bear.
_LOOSE_OBJECTS = 6700
_PACKS = 50
# Whoever makes a worktree meanwhile waits for the lock, and for longer than this.
_TIMEOUT_SECONDS = 600.0
log = get_logger()


def maintain_mirrors(mirrors: Mirrors, loose_objects: int = _LOOSE_OBJECTS) -> list[Path]:
    """Collect the garbage of the mirrors that have grown; those that were worked on.

    One that somebody works on, or that cannot be done in time, is left to another time.

    Args:
        loose_objects: above how many of them a mirror has grown.
    """
    done = []
    for mirror in mirrors.there():
        try:
            with mirror_lock(mirror, 0):
                _drop_unfinished(mirror)
                if _has_grown(mirrors, mirror, loose_objects):
                    _collect(mirrors, mirror)
                    log.info("mirror_maintained", mirror=str(mirror))
                    done.append(mirror)
        except (GitError, WorktreeError) as error:
            log.info("mirror_not_maintained", mirror=str(mirror), why=str(error))
    return done


def _collect(mirrors: Mirrors, mirror: Path) -> None:
    try:
        mirrors.git.run(mirror, "gc", "--quiet", "--prune=2.weeks.ago", timeout_seconds=_TIMEOUT_SECONDS)
    except GitError:
        _drop_unfinished(mirror)
        raise


def _drop_unfinished(mirror: Path) -> None:
    """Remove the packs that nobody writes any more.

    A git that is ended, or finds no room, leaves what it wrote by then. Left alone each try would add one that is as
    large as the mirror, and a disk that was nearly full would stay full.
    """
    left = set(map(os.path.realpath, mirror.glob("objects/pack/tmp_pack_*")))
    if not left:
        return
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            left -= {file.path for file in process.open_files()}
    for path in left:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _has_grown(mirrors: Mirrors, mirror: Path, loose_objects: int) -> bool:
    listed = mirrors.git.run(mirror, "count-objects", "-v").line
    count = dict(line.split(": ", 1) for line in listed.split("\n"))
    return int(count["count"]) > loose_objects or int(count["packs"]) > _PACKS

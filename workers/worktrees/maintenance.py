"""Keep the mirrors of a host small: pack what lies loose, drop what nothing names any more.

git does none of it by itself here (`gc.auto` is off), since a tree may be named by a row
only a moment after it was written. So a mirror is looked after now and then, under its own
lock, and only what nothing has named or touched for two weeks goes: what a run that was
cleaned left, a snapshot that nobody kept.
Source: rules of the protocol, 39.
"""

from __future__ import annotations

from pathlib import Path

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
    for mirror in sorted(path for path in mirrors.root.glob("*") if (path / "HEAD").is_file()):
        try:
            with mirror_lock(mirror, 0):
                if _has_grown(mirrors, mirror, loose_objects):
                    collect = ("gc", "--quiet", "--prune=2.weeks.ago")
                    mirrors.git.run(mirror, *collect, timeout_seconds=_TIMEOUT_SECONDS)
                    log.info("mirror_maintained", mirror=str(mirror))
                    done.append(mirror)
        except (GitError, WorktreeError) as error:
            log.info("mirror_not_maintained", mirror=str(mirror), why=str(error))
    return done


def _has_grown(mirrors: Mirrors, mirror: Path, loose_objects: int) -> bool:
    listed = mirrors.git.run(mirror, "count-objects", "-v").line
    count = dict(line.split(": ", 1) for line in listed.split("\n"))
    return int(count["count"]) > loose_objects or int(count["packs"]) > _PACKS

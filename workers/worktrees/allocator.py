"""Every directory a call runs in comes from here, and no two calls share one.

    <state>/flow/<run>/wt/<node>/a<number>-l<lineage>   a node's worktree
    <state>/flow/<run>/calls/<call>/wt, wt-1, …         what a reading call looks at
    <state>/flow/<run>/calls/<call>/<op>-f<fence>       where an op works, gone when it ends

The order is fixed: the `placed` row, then the worktree, then the first request.
Source: App Server document, "Working directories".
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.base.errors import GitError, WorktreeError
from shared.hub.git import Git
from workers.worktrees.lock import mirror_lock

_LOCK_TIMEOUT_SECONDS = 900.0


def run_directory(state_dir: Path, run_id: str) -> Path:
    """All that a run has on this host, but for its part of the mirror."""
    return state_dir / "flow" / run_id


def is_below(state_dir: Path, path: str | os.PathLike[str]) -> bool:
    """Whether a recorded directory is, or was, in this state directory.

    One that a host of the same name made may be another state directory's: it was given up with that one.
    """
    return is_within(os.path.realpath(state_dir), os.path.realpath(path))


def is_within(directory: str, path: str) -> bool:
    """Whether a path is a directory or lies in it, both as `os.path.realpath` gives them."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def lies_in(state_dir: Path, path: str | os.PathLike[str] | None) -> bool:
    """Whether a recorded directory is there, in this state directory."""
    return bool(path) and os.path.isdir(path or "") and is_below(state_dir, path or "")


def executor_directory(state_dir: Path, run_id: str, node_id: str, number: int, lineage: int) -> Path:
    """A node's worktree number `number` (from 1)."""
    return run_directory(state_dir, run_id) / "wt" / node_id / f"a{number}-l{lineage}"


def call_directory(state_dir: Path, run_id: str, call_id: str) -> Path:
    """What belongs to one call: its checkout, its logs."""
    return run_directory(state_dir, run_id) / "calls" / call_id


def reader_directory(state_dir: Path, run_id: str, call_id: str, earlier: int = 0) -> Path:
    """The checkout that a reading call looks at; `earlier` counts those it had before, and none is made over."""
    return call_directory(state_dir, run_id, call_id) / (f"wt-{earlier}" if earlier else "wt")


def make_worktree(git: Git, mirror: Path, path: Path, commit: str) -> None:
    """A detached worktree at `commit`, made anew: what an earlier try left at `path` is removed.

    Raises:
        WorktreeError: git refuses it (no such commit, a required filter that fails, no space).
    """
    try:
        remove_worktree(git, mirror, path)
        with mirror_lock(mirror, _LOCK_TIMEOUT_SECONDS):
            path.parent.mkdir(parents=True, exist_ok=True)
            # git remembers a worktree whose directory is gone: forced, it lets that path be used once more.
            options = ("--quiet", "--force", "--detach", "--no-checkout")
            git.run(mirror, "worktree", "add", *options, "--", str(path), commit)
        # The long part needs no lock: it touches this worktree alone.
        git.run(path, "reset", "--hard", "--quiet")
    except GitError as error:
        raise WorktreeError(f"no worktree can be made at {path}: {error}", path=str(path), **error.facts) from None


def remove_worktree(git: Git, mirror: Path, path: Path) -> None:
    """Remove a worktree and the mirror's memory of it; one that is not there is no error."""
    if not os.path.lexists(path):
        return
    # A large directory goes without the lock: nobody else has this path, and git forgets only what is gone.
    remove_tree(path)
    prune_worktrees(git, mirror)


def prune_worktrees(git: Git, mirror: Path) -> None:
    """Let the mirror forget the worktrees whose directories are gone."""
    with mirror_lock(mirror, _LOCK_TIMEOUT_SECONDS):
        git.run(mirror, "worktree", "prune", "--expire=now")


def remove_tree(path: Path) -> None:
    """Remove a directory with everything in it, also what its owner made read-only.

    Raises:
        WorktreeError: something in it cannot be removed.
    """

    def open_up(remove: Callable[..., Any], name: str, _error: Any) -> None:
        parent = os.path.dirname(name)
        os.chmod(parent, os.stat(parent).st_mode | stat.S_IRWXU)
        if os.path.isdir(name) and not os.path.islink(name):
            os.chmod(name, stat.S_IRWXU)
            shutil.rmtree(name)
        else:
            os.unlink(name)

    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path, onerror=open_up)
    except FileNotFoundError:
        return
    except OSError as error:
        raise WorktreeError(f"{path} cannot be removed: {error}", path=str(path)) from None

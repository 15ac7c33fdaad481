"""This host's copy of a hub: one bare repository, shared by all its worktrees and runs.

It holds branches (as `origin/<branch>`, so that no worktree can have one checked
out), tags, and what was asked for of a run's own refs. No remote is configured: an
agent that looks gets no URL. Nothing is ever collected as garbage while it is in use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from shared.base.errors import NotOnHub, WorktreeError
from shared.base.log import mask_url
from shared.hub.git import Git
from shared.hub.push import patiently
from shared.hub.refs import run_namespace
from workers.worktrees.lock import mirror_lock

_LOCK_TIMEOUT_SECONDS = 900.0
# A hub that is restarted or fails over is back before.
_HUB_PATIENCE_SECONDS = 600.0
# For whoever runs git in a worktree without our environment: the agent.
_SETTINGS = {"gc.auto": "0", "maintenance.auto": "false", "core.fsync": "all"}
_STALE_LOCKS = ("*.lock", "refs/**/*.lock", "worktrees/*/*.lock", "objects/info/*.lock")


class Mirrors:
    """The mirrors of one host, below its state directory."""

    def __init__(self, state_dir: Path, git: Git | None = None) -> None:
        self.state_dir = state_dir
        self.root = state_dir / "mirrors"
        self.git = git or Git()

    def there(self) -> list[Path]:
        """The mirrors that are there and whole, by path."""
        return sorted(path for path in self.root.glob("*") if (path / "HEAD").is_file())

    def path_of(self, hub_url: str) -> Path:
        """Where the mirror of a hub is, or will be."""
        return self.root / hashlib.sha256(hub_url.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def ensure(self, hub_url: str, run_id: str, needs: Iterable[str] = ()) -> Path:
        """The mirror of a hub, holding the commits needed; without `needs`, with the hub's branches of now.

        Raises:
            GitError: the hub cannot be reached. NotOnHub: none of its refs leads to a commit needed.
            WorktreeError: the mirror stayed locked.
        """
        mirror, wanted = self.path_of(hub_url), list(needs)
        if wanted and mirror.is_dir() and not self._missing(mirror, wanted):
            return mirror
        with mirror_lock(mirror, _LOCK_TIMEOUT_SECONDS):
            if not mirror.is_dir():
                self._make(mirror, hub_url)
            # Somebody else may have fetched it while this one waited for the lock.
            if not wanted or self._missing(mirror, wanted):
                self._fetch(mirror, hub_url, run_id, wanted)
        return mirror

    def ensure_tree(self, hub_url: str, run_id: str, tree: str, ref: str) -> Path:
        """The mirror of a hub, holding a tree that a ref of the run carries there.

        Raises:
            GitError: the hub cannot be reached. NotOnHub: its ref does not lead to the tree.
            WorktreeError: the mirror stayed locked.
        """
        mirror = self.path_of(hub_url)
        if not mirror.is_dir():
            self.ensure(hub_url, run_id)
        if self._has_tree(mirror, tree):
            return mirror
        with mirror_lock(mirror, _LOCK_TIMEOUT_SECONDS):
            fetch = ("fetch", "--quiet", "--no-tags", "--force", "--no-write-fetch-head")
            self.git.run(mirror, *fetch, "--", hub_url, f"+{ref}:{ref}")
        if not self._has_tree(mirror, tree):
            raise NotOnHub(f"the hub's {ref} does not lead to the tree {tree}", ref=ref, tree=tree)
        return mirror

    def _has_tree(self, mirror: Path, tree: str) -> bool:
        answer = self.git.run(mirror, "cat-file", "--batch-check", input=f"{tree}^{{tree}}\n".encode())
        return not answer.line.endswith(" missing")

    def _missing(self, mirror: Path, commits: list[str]) -> list[str]:
        if not commits:
            return []
        questions = "".join(f"{commit}^{{commit}}\n" for commit in commits).encode()
        answers = self.git.run(mirror, "cat-file", "--batch-check", input=questions).line.split("\n")
        return [commit for commit, answer in zip(commits, answers, strict=False) if answer.endswith(" missing")]

    def _make(self, mirror: Path, hub_url: str) -> None:
        # Made aside and moved: a mirror that is there is whole.
        making = mirror.with_name(mirror.name + ".making")
        shutil.rmtree(making, ignore_errors=True)
        self.git.run(mirror.parent, "init", "--quiet", "--bare", "--template=", "--", str(making))
        for name, value in {**_SETTINGS, "crw.hub": mask_url(hub_url)}.items():
            self.git.run(making, "config", name, value)
        making.rename(mirror)

    def _fetch(self, mirror: Path, hub_url: str, run_id: str, needs: list[str]) -> None:
        own = run_namespace(run_id)
        fetch = ("fetch", "--quiet", "--no-tags", "--force", "--no-write-fetch-head")
        branches = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
        self.git.run(mirror, *fetch, "--prune", "--", hub_url, *branches)
        if self._missing(mirror, needs):
            # Not pruned: a ref of ours may stand here a moment before the hub lists it.
            self.git.run(mirror, *fetch, "--", hub_url, f"+{own}/*:{own}/*")
        for commit in self._missing(mirror, needs):
            found = self.git.run(mirror, *fetch, "--", hub_url, commit, check=False)
            if found.exit_status != 0:
                raise NotOnHub(f"the hub has no commit {commit}", commit=commit, output=found.err)

    def sweep_stale_locks(self) -> list[Path]:
        """Remove lock files that a killed git left; only while no git of this host runs (at a worker's start).

        Raises:
            WorktreeError: somebody holds a mirror's lock: an earlier worker is not gone.
        """
        removed = []
        for mirror in self.there():
            with mirror_lock(mirror, 0):
                for lock in (found for pattern in _STALE_LOCKS for found in mirror.glob(pattern)):
                    try:
                        os.unlink(lock)
                    except OSError as error:
                        raise WorktreeError(f"the stale lock {lock} cannot be removed: {error.strerror}") from None
                    removed.append(lock)
        return removed


class PatientMirrors(Mirrors):
    """The mirrors as one call has them: a hub that is away is waited for, for ten minutes."""

    def __init__(self, mirrors: Mirrors, should_stop: Callable[[], object]) -> None:
        super().__init__(mirrors.state_dir, mirrors.git)
        self._mirrors = mirrors
        self._should_stop = should_stop

    def ensure(self, hub_url: str, run_id: str, needs: Iterable[str] = ()) -> Path:
        """As for all calls."""
        wanted, ensure = list(needs), self._mirrors.ensure
        return patiently(lambda: ensure(hub_url, run_id, wanted), self._should_stop, _HUB_PATIENCE_SECONDS)

    def ensure_tree(self, hub_url: str, run_id: str, tree: str, ref: str) -> Path:
        """As for all calls."""
        ensure = self._mirrors.ensure_tree
        return patiently(lambda: ensure(hub_url, run_id, tree, ref), self._should_stop, _HUB_PATIENCE_SECONDS)

"""Keep what stands in a node's old worktree before another one takes its place; it is never written again.

Source: journal document, "The suffix".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.base.errors import GitError, WorktreeError
from shared.hub.git import Git
from shared.hub.refs import pending_ref, superseded_ref
from shared.model.boundary import Boundary, HeldTree
from shared.model.rows import CallRow, NewCallRow
from shared.model.spec import RunSpec
from workers.worktrees.commit import Stamp, make_commit, with_trailers
from workers.worktrees.keep import Keeping, RefTaken, keep
from workers.worktrees.mirror import Mirrors
from workers.worktrees.snapshot import snapshot


@dataclass(frozen=True)
class Preserving:
    """What preserving works with. `prepared` is the row of the call whose worktree follows: it names and dates refs."""

    mirrors: Mirrors
    spec: RunSpec
    prepared: CallRow
    boundary: Boundary
    keeping: Keeping

    @property
    def git(self) -> Git:
        return self.mirrors.git

    def preserve(self, old: CallRow | None) -> NewCallRow:
        """Keep the old worktree and the trees of held calls, on the hub.

        A worktree that cannot be read keeps no node from going on: it stays where it is, and the row says why.

        Args:
            old: the row that made the old worktree; None when this host has none.

        Returns:
            The row `worktree_preserved`. Shape of its detail: `ref`, `commit`, `tree`, `path` (null without an old
            worktree), `held` the refs of held trees (null for one that was never pushed and is not here), `error` why
            the old one was not kept.

        Raises:
            GitError: the hub stayed away, or lacks the tree of a held call.
        """
        detail: dict[str, Any] = dict.fromkeys(("ref", "commit", "tree", "path", "error"))
        if old is not None:
            detail.update(self._keep_worktree(Path(old.worktree_path or ""), old.allocation))
        held = [self._keep_held(item) for item in self.boundary.held if item.tree != detail["tree"]]
        lineage, because = self.boundary.lineage, dict(self.boundary.because)
        return NewCallRow("worktree_preserved", {**detail, "held": held, "lineage": lineage, "because": because})

    def _keep_worktree(self, worktree: Path, number: int | None) -> dict[str, Any]:
        try:
            tree = snapshot(self.git, worktree)
            head = self.git.run(worktree, "rev-parse", "--verify", "HEAD").line
            commit = self._wrap(worktree, tree, head, f"Superseded worktree {number}")
        except (WorktreeError, GitError) as error:
            return {"path": str(worktree), "error": str(error)}
        ref = self._keep(worktree, commit, None)
        return {"ref": ref, "commit": commit, "tree": tree, "path": str(worktree)}

    def _keep_held(self, held: HeldTree) -> dict[str, Any]:
        run, call, tree = self.prepared.run_id, held.call, held.tree
        try:
            mirror = self.mirrors.ensure_tree(self.spec.hub, run, tree, pending_ref(run, call))
        except GitError as error:
            if not held.unpushed:
                raise
            # Another host had it, and the hub never did.
            return {"call": call, "ref": None, "commit": None, "tree": tree, "error": str(error)}
        commit = self._wrap(mirror, tree, None, f"Held work of call {call}")
        ref = self._keep(mirror, commit, call)
        return {"call": call, "ref": ref, "commit": commit, "tree": tree}

    def _keep(self, repository: Path, commit: str, held_call: str | None) -> str:
        """Keep a commit on the first ref that names no other one: a call whose host was lost preserves once more."""
        row = self.prepared
        assert row.node_id is not None
        number = 1
        while True:
            ref = superseded_ref(row.run_id, self.boundary.lineage, row.path, row.node_id, held_call, number)
            try:
                keep(self.git, repository, self.spec.hub, ref, commit, self.keeping, replace=False)
                return ref
            except RefTaken:
                number += 1

    def _wrap(self, repository: Path, tree: str, parent: str | None, subject: str) -> str:
        row = self.prepared
        stamp = Stamp(self.spec.author_name, self.spec.author_email, row.written_at)
        message = with_trailers(subject, row.run_id, row.call_id, row.request_id)
        return make_commit(self.git, repository, tree, [parent] if parent else [], message, stamp)


def old_worktree(made: Sequence[CallRow], call_id: str, attempt: int, host: str | None) -> CallRow | None:
    """The row of the worktree that the next one of a node takes the place of, if this host has it.

    One that was announced and is not there was never made, since its worker died before: the one before it stands.

    Args:
        made: the rows that made worktrees of the node, oldest first.
        call_id, attempt: whoever is to have the next one: what an earlier holder of it made is no old worktree.
        host: whatever stands here at the path of a worktree of another host is none of the node's; None for any.
    """
    here = [row for row in made if (row.call_id, row.attempt) != (call_id, attempt) and host in (None, row.host)]
    return next((row for row in reversed(here) if os.path.isdir(row.worktree_path or "")), None)


def kept_refs(preserved: CallRow | NewCallRow) -> tuple[str, ...]:
    """The refs that a `worktree_preserved` row names."""
    detail = preserved.detail
    return tuple(filter(None, [detail.get("ref"), *(held.get("ref") for held in detail.get("held") or ())]))

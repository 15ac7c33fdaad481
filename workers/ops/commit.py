"""`flow.crw.commit`: the tree an executor call left becomes the node's next commit.

The tree comes from the call's terminal row, the parent from the journal, so nothing
that changed in the directory since then gets in; it stays visible there as a change.
The order is: commit object, ref on the hub, HEAD by compare-and-swap, real index.
Each step is skipped where its effect is already there. Two heads give way to the commit:
one that the executor left by committing itself (`stray_head`, kept on a ref of its own),
and a commit of an attempt of this op that was superseded since. Where the node's worktree is
another host's, or gone with a host of this name that was given up, the commit is made from
the hub's objects alone: the node's next worktree begins at it.
Source: journal document, "The working snapshot" and "Build and fix"; rules of the protocol, 8 and 9.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.base.crashpoint import crashpoint
from shared.base.errors import FlowError, WorktreeError
from shared.hub.git import Git
from shared.hub.refs import commit_ref, pending_ref
from shared.model.ops import parse_arguments
from workers.ops.op import OpContext, OpResult
from workers.ops.rights import keeping_of, require_right, stamp_of
from workers.worktrees.allocator import lies_in
from workers.worktrees.commit import make_commit, tree_of, with_trailers
from workers.worktrees.history import NodeHistory, read_history
from workers.worktrees.keep import keep


class Commit:
    """Commits the pending tree of a node's last executor call on the recorded parent."""

    name = "commit"

    def parse(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return parse_arguments(self.name, arguments)

    def run(self, context: OpContext) -> OpResult:
        node, git = context.arguments["node"], context.mirrors.git
        history = read_history(context.node_rows())
        recorded, tree, parent = _recorded(history, node)
        worktree, here = _repository(context, history, recorded, tree, parent)
        stray = _stray_head(history, parent)
        facts = {"node": node, "worktree": str(recorded), "tree": tree, "parent": parent, "stray_head": stray}
        gives_way = {parent, *history.undone, *([stray] if stray else ())}
        if tree == tree_of(git, worktree, parent):
            require_right(context)
            if here:
                move_head(git, worktree, gives_way, parent)
            output = _output(parent, tree, parent, [], [])
            return OpResult(output, {"commit_sha": parent}, facts)
        claim = context.claim
        message = with_trailers(context.arguments["message"], claim.run_id, claim.call_id, claim.request_id)
        commit = make_commit(git, worktree, tree, [parent], message, stamp_of(context))
        if here:
            _check_head(git, worktree, gives_way, commit)
        ref = commit_ref(claim.run_id, node, history.kept_commits + 1)
        keep(git, worktree, context.spec.hub, ref, commit, keeping_of(context))
        require_right(context)
        if here:
            move_head(git, worktree, gives_way, commit)
        paths = changed_paths(git, worktree, parent, commit)
        outside = outside_regions(git, worktree, parent, commit, context.arguments.get("regions"))
        facts.update(ref=ref, paths=len(paths))
        return OpResult(_output(commit, tree, parent, paths, outside), {"commit_sha": commit}, facts)


def _stray_head(history: NodeHistory, parent: str) -> str | None:
    """The head that the node's last executor call recorded to have left on the parent; None when it left none."""
    moved = history.last_turn.detail.get("executor_head_moved") if history.last_turn is not None else None
    return str(moved["head"]) if moved is not None and moved["start"] == parent else None


def _output(commit: str, tree: str, parent: str, paths: list[str], outside: list[str]) -> dict[str, Any]:
    return {
        "commit": commit,
        "tree": tree,
        "parent": parent,
        "changed": commit != parent,
        "paths": paths,
        "outside_regions": outside,
    }


def _recorded(history: NodeHistory, node: str) -> tuple[Path, str, str]:
    """The node's worktree, the tree its last executor call left and the parent for it.

    Raises:
        FlowError: the script asked for a commit where no executor call left anything.
    """
    placed, turn = history.placed, history.last_turn
    if placed is None or turn is None or history.worked_in is None or history.parent is None:
        raise FlowError(f"node {node} has nothing to commit: no executor call of it has ended", node=node)
    if turn.pending_tree is None:
        raise FlowError(f"node {node} has nothing to commit: its last executor call ended {turn.event}", node=node)
    return Path(history.worked_in), turn.pending_tree, history.parent


def _repository(context: OpContext, history: NodeHistory, worktree: Path, tree: str, parent: str) -> tuple[Path, bool]:
    """Where the commit is made, and whether that is the node's worktree.

    Raises:
        GitError: the hub cannot be reached, or lacks the tree.
    """
    if history.worked_on in (None, context.host) and lies_in(context.state_dir, worktree):
        return worktree, True
    assert history.last_turn is not None
    hub, run = context.spec.hub, context.claim.run_id
    context.mirrors.ensure(hub, run, [parent])
    return context.mirrors.ensure_tree(hub, run, tree, pending_ref(run, history.last_turn.call_id)), False


def _check_head(git: Git, worktree: Path, gives_way: Collection[str], commit: str) -> str:
    """The worktree's HEAD, which gives way to the commit or is what this very request made.

    Raises:
        WorktreeError: somebody else committed there.
    """
    head = git.run(worktree, "rev-parse", "--verify", "HEAD").line
    if head not in gives_way and head != commit:
        raise WorktreeError(
            f"HEAD of {worktree} is {head}, which no row of the run put there: somebody else committed there",
            head=head,
            recorded=sorted(gives_way),
        )
    return head


def move_head(git: Git, worktree: Path, gives_way: Collection[str], commit: str) -> None:
    """Move HEAD to `commit` and set the real index to it; the working files stay as they are.

    Args:
        gives_way: where HEAD may stand: the recorded parent, a stray head, superseded commits.

    Raises:
        WorktreeError: HEAD is none of those that give way, and not the commit.
    """
    head = _check_head(git, worktree, gives_way, commit)
    if head != commit:
        git.run(worktree, "update-ref", "--no-deref", "HEAD", commit, head)
    crashpoint("after:head")
    index = Path(git.run(worktree, "rev-parse", "--absolute-git-dir").line) / "index"
    # In a copy that is moved into place: a lock file that a killed command left does not matter,
    # and the entries' flags survive.
    with tempfile.TemporaryDirectory(prefix="crw-index-", dir=index.parent) as directory:
        copy = Path(directory) / "index"
        if index.exists():
            shutil.copy2(index, copy)
        git.run(worktree, "read-tree", "--reset", commit, env={"GIT_INDEX_FILE": str(copy)})
        os.replace(copy, index)


def changed_paths(git: Git, repository: Path, old: str, new: str, pathspecs: Sequence[str] = ()) -> list[str]:
    """The paths that differ between two commits, as they are named: spaces and all."""
    arguments = ("diff-tree", "-r", "--no-renames", "--name-status", "-z", old, new, "--", *pathspecs)
    return git.run(repository, *arguments).records[1::2]


def outside_regions(git: Git, repository: Path, old: str, new: str, regions: Sequence[str] | None) -> list[str]:
    """The changed paths in none of the declared edit regions (directories, files or globs); listed, never refused."""
    if not regions:
        return []
    inside = set(changed_paths(git, repository, old, new, [f":(top,glob){region}" for region in regions]))
    return [path for path in changed_paths(git, repository, old, new) if path not in inside]

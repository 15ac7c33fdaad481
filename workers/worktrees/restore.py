"""Make a worktree hold a boundary: a commit, and a recorded tree over it that no commit carries.

The files become the tree and the worktree's own index stays at the commit, as it was
when an executor had left the tree there. Equal tree ids are the whole check: nothing
of the host that had the files before is needed, the hub has both objects.
Source: journal document, "The suffix"; settled conflict of restoring on another host.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.base.errors import GitError, WorktreeError
from shared.hub.git import Git
from workers.worktrees.snapshot import snapshot


def lay_over(git: Git, worktree: Path, tree: str) -> None:
    """Put a tree over a fresh checkout: its files become the tree's, its index stays as it is.

    Raises:
        WorktreeError: git refuses it.
    """
    try:
        with _index_copy(git, worktree) as own:
            git.run(worktree, "read-tree", "-m", "-u", "HEAD", tree, env=own)
    except GitError as error:
        raise _refused(worktree, tree, error) from None


def lay_again(git: Git, worktree: Path, tree: str) -> None:
    """Take back what a command changed since `lay_over`; what git ignores stays. Raises as it does."""
    try:
        with _index_copy(git, worktree) as own:
            git.run(worktree, "read-tree", "--reset", "-u", tree, env=own)
            git.run(worktree, "clean", "-ffdq", env=own)
    except GitError as error:
        raise _refused(worktree, tree, error) from None


def require_snapshot(git: Git, worktree: Path, tree: str) -> None:
    """Check that a worktree holds exactly a tree.

    Raises:
        WorktreeError: it holds another one, or cannot be read.
    """
    found = snapshot(git, worktree)
    if found != tree:
        raise WorktreeError(
            f"{worktree} holds {found} and not {tree}, which it was restored to",
            path=str(worktree), found=found, expected=tree,
        )  # fmt: skip


@contextmanager
def _index_copy(git: Git, worktree: Path) -> Iterator[dict[str, str]]:
    directory = Path(git.run(worktree, "rev-parse", "--absolute-git-dir").line)
    with tempfile.TemporaryDirectory(prefix="crw-restore-", dir=directory) as aside:
        index = Path(aside) / "index"
        shutil.copy2(directory / "index", index)
        yield {"GIT_INDEX_FILE": str(index)}


def _refused(worktree: Path, tree: str, error: GitError) -> WorktreeError:
    return WorktreeError(f"the tree {tree} cannot be laid over {worktree}: {error}", path=str(worktree), **error.facts)

"""Whether a branch of the hub holds a commit, asked from a machine without a mirror."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable

from shared.hub.git import Git
from shared.hub.refs import BRANCHES, read_ref


def find_on_branch(git: Git, hub_url: str, ref: str, commit: str) -> tuple[str | None, bool]:
    """The tip of a ref (None: it is not there) and whether a commit is the tip or in its history.

    Only the history is fetched, where the hub can leave files out.

    Raises:
        GitError: the hub cannot be reached.
    """
    tip = read_ref(git, hub_url, ref)
    if tip is None or tip == commit:
        return tip, tip == commit
    with tempfile.TemporaryDirectory(prefix="crw-history-") as directory:
        git.run(directory, "init", "--quiet", "--bare")
        git.run(directory, "fetch", "--quiet", "--no-tags", "--filter=tree:0", "--", hub_url, ref)
        held = git.run(directory, "merge-base", "--is-ancestor", commit, "FETCH_HEAD", check=False)
    return tip, held.exit_status == 0


def on_branches(git: Git, hub_url: str, commits: Iterable[str]) -> set[str]:
    """Which of these commits are in the history of a branch. Only the history is fetched, where the hub can.

    Raises:
        GitError: the hub cannot be reached.
    """
    with tempfile.TemporaryDirectory(prefix="crw-history-") as directory:
        git.run(directory, "init", "--quiet", "--bare")
        fetch = ("fetch", "--quiet", "--no-tags", "--filter=tree:0")
        git.run(directory, *fetch, "--", hub_url, f"+{BRANCHES}*:{BRANCHES}*")
        named = {commit: git.run(directory, "for-each-ref", "--contains", commit, check=False) for commit in commits}
    return {commit for commit, found in named.items() if found.exit_status == 0 and found.out.strip()}

"""The working snapshot: the tree of the files a worktree holds now.

One function for the executor's pending tree, for commits and for every later proof.
It starts from HEAD in an index of its own, takes in all working files, and then
looks at the real index for two things only: which paths somebody tracked that HEAD
does not have, and which entries of a sparse checkout are not on disk. The real index
is never written. Source: App Server document, "Working directories"; journal
document, "The working snapshot".
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from shared.base.errors import GitError, WorktreeError
from shared.hub.git import Git, split_records

_GITLINK = "160000"
# All working files into the index aside, what both indexes then hold, and the tree of the one aside.
_TAKE = """
git read-tree HEAD
git add -A --sparse -- .
(unset GIT_INDEX_FILE; git ls-files --stage -v -z > "$CRW_ASIDE/real")
git ls-files --stage -v -z > "$CRW_ASIDE/own"
git write-tree
"""
_ENTRY = re.compile(r"(?P<tag>\S) (?P<mode>[0-7]{6}) (?P<object>[0-9a-f]+) (?P<stage>[0-3])\t(?P<path>.*)", re.DOTALL)
_NO_COMMIT = re.compile(r"'(?P<path>.*?)/?' does not have a commit checked out")


@dataclass(frozen=True)
class _Entry:
    """An index entry. `skipped`: its skip-worktree flag is set."""

    mode: str
    object: str
    stage: str
    path: str
    skipped: bool


def snapshot(git: Git, worktree: Path) -> str:
    """The id of the tree of everything the worktree holds that git does not ignore.

    Writes: objects in the repository; nothing in the worktree.

    Raises:
        WorktreeError: it cannot be read whole, naming the path: a nested repository, a filter that fails.
    """
    try:
        return _snapshot(git, worktree)
    except GitError as error:
        nested = _NO_COMMIT.search(str(error.facts.get("output", "")))
        if nested:
            raise _nested(worktree, nested["path"]) from None
        raise WorktreeError(f"{worktree} cannot be snapshotted: {error}", path=str(worktree), **error.facts) from None


def settled_snapshot(git: Git, worktree: Path, tries: int = 5) -> str:
    """The snapshot, once two in a row are equal: nothing writes the directory any more.

    Raises:
        WorktreeError: it kept changing, or cannot be read.
    """
    last = snapshot(git, worktree)
    for _ in range(tries):
        now = snapshot(git, worktree)
        if now == last:
            return now
        last = now
    raise WorktreeError(f"{worktree} keeps changing: something still writes to it", path=str(worktree))


def _snapshot(git: Git, worktree: Path) -> str:
    where = git.run(worktree, "rev-parse", "--show-cdup", "--absolute-git-dir").line.split("\n", 1)
    # Without its .git file git would take the next repository above for the one meant.
    if where[0]:
        raise WorktreeError(f"{worktree} is no worktree any more: its .git is gone", path=str(worktree))
    with tempfile.TemporaryDirectory(prefix="crw-snapshot-", dir=where[1]) as aside:
        own = {"GIT_INDEX_FILE": str(Path(aside) / "index")}
        tree = git.run_script(worktree, "snapshot", _TAKE, env={**own, "CRW_ASIDE": aside}).line
        listed = [_entries(worktree, (Path(aside) / name).read_bytes()) for name in ("real", "own")]
        entries, added = _take_from_real_index(git, worktree, own, *listed)
        _refuse_new_gitlinks(git, worktree, [entry for entry in entries if entry.mode == _GITLINK])
        return git.run(worktree, "write-tree", env=own).line if added else tree


def _take_from_real_index(
    git: Git, worktree: Path, own: dict[str, str], real: list[_Entry], entries: list[_Entry]
) -> tuple[list[_Entry], bool]:
    """Add what only the real index tells; the entries that the snapshot then has, and whether any were added."""
    held = {entry.path for entry in entries}
    hidden = sorted({entry.path for entry in real if entry.path not in held and _on_disk(worktree, entry.path)})
    if hidden:
        names = "\0".join(hidden).encode("utf-8", "surrogateescape")
        arguments = ("add", "-f", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
        git.run(worktree, *arguments, input=names, env={**own, "GIT_LITERAL_PATHSPECS": "1"})
    absent = [entry for entry in real if entry.skipped and not _on_disk(worktree, entry.path)]
    if absent:
        lines = "".join(f"{entry.mode} {entry.object} {entry.stage}\t{entry.path}\0" for entry in absent)
        git.run(worktree, "update-index", "-z", "--index-info", input=lines.encode("utf-8", "surrogateescape"), env=own)
    if not hidden and not absent:
        return entries, False
    return _entries(worktree, git.run(worktree, "ls-files", "--stage", "-v", "-z", env=own).out), True


def _entries(worktree: Path, listed: bytes) -> list[_Entry]:
    entries = []
    for record in split_records(listed):
        match = _ENTRY.fullmatch(record)
        if match is None:
            raise WorktreeError(f"{worktree}: git listed an index entry that is none: {record!r}")
        # `s` is a skipped entry that is also assumed unchanged.
        skipped = match["tag"] in "Ss"
        entries.append(_Entry(match["mode"], match["object"], match["stage"], match["path"], skipped))
    return entries


def _on_disk(worktree: Path, path: str) -> bool:
    """Whether the file itself is there: not a directory in its place, not through a link above it."""
    current = os.fspath(worktree)
    *above, name = path.split("/")
    for part in above:
        current = os.path.join(current, part)
        if os.path.islink(current):
            return False
    try:
        return not stat.S_ISDIR(os.lstat(os.path.join(current, name)).st_mode)
    except OSError:
        return False


def _refuse_new_gitlinks(git: Git, worktree: Path, links: Iterable[_Entry]) -> None:
    """A registered submodule's entry, as HEAD has it, is none of ours; any other link is a repository that got in."""
    links = list(links)
    if not links:
        return
    listed = git.run(worktree, "ls-tree", "-r", "-z", "HEAD").records
    registered = {tuple(record.replace("\t", " ", 1).split(" ", 3)) for record in listed}
    for entry in links:
        if (entry.mode, "commit", entry.object, entry.path) not in registered:
            raise _nested(worktree, entry.path)


def _nested(worktree: Path, path: str) -> WorktreeError:
    return WorktreeError(
        f"{path} in {worktree} is a repository of its own, whose files would not travel; remove its .git or ignore it",
        path=path,
        worktree=str(worktree),
    )

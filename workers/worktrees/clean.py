"""Remove what a run left on this host and, from there, on the hub. Target branches are the user's and stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from shared.hub.deletion import delete_run_refs
from shared.hub.refs import NAMESPACE, run_namespace
from workers.worktrees.allocator import prune_worktrees, remove_tree, run_directory
from workers.worktrees.mirror import Mirrors


@dataclass(frozen=True)
class Cleaned:
    """What was there and is gone. Shape: directories as paths; refs by their full names."""

    directories: tuple[str, ...]
    mirror_refs: tuple[str, ...]
    hub_refs: tuple[str, ...]


def clean_run(
    mirrors: Mirrors, state_dir: Path, hub_url: str, run_id: str, go_on: Callable[[], None] = lambda: None
) -> Cleaned:
    """Remove a run's worktrees, calls' directories, refs in the mirror and refs on the hub; again is no error.

    Args:
        go_on: called before each step; what it raises ends the removal there.

    Raises:
        GitError: the hub cannot be reached (the host's part is done by then).
        WorktreeError: a directory cannot be removed.
    """
    cleaned = clean_host(mirrors, state_dir, hub_url, run_id, go_on)
    return replace(cleaned, hub_refs=tuple(delete_run_refs(mirrors.git, hub_url, run_id, go_on)))


def clean_host(
    mirrors: Mirrors, state_dir: Path, hub_url: str, run_id: str, go_on: Callable[[], None] = lambda: None
) -> Cleaned:
    """The host's part of `clean_run`. Raises WorktreeError: a directory cannot be removed."""
    directory, mirror = run_directory(state_dir, run_id), mirrors.path_of(hub_url)
    directories = tuple(str(path) for path in sorted([*directory.glob("wt/*/*"), *directory.glob("calls/*")]))
    refs: tuple[str, ...] = ()
    for path in (*map(Path, directories), directory):
        go_on()
        remove_tree(path)
    if mirror.is_dir():
        go_on()
        prune_worktrees(mirrors.git, mirror)
        refs = _delete_mirror_refs(mirrors, mirror, run_id)
    return Cleaned(directories, refs, ())


def runs_here(mirrors: Mirrors, state_dir: Path) -> set[str]:
    """The runs that have a directory or refs in a mirror on this host."""
    found = {path.name for path in run_directory(state_dir, "any").parent.glob("*")}
    for mirror in mirrors.there():
        listed = mirrors.git.run(mirror, "for-each-ref", "--format=%(refname)", NAMESPACE + "/").line
        found |= {name.removeprefix(NAMESPACE + "/").split("/")[0] for name in listed.split("\n") if name}
    return found


def _delete_mirror_refs(mirrors: Mirrors, mirror: Path, run_id: str) -> tuple[str, ...]:
    listed = mirrors.git.run(mirror, "for-each-ref", "--format=%(refname)", run_namespace(run_id) + "/").line
    names = tuple(name for name in listed.split("\n") if name)
    if names:
        commands = "".join(f"delete {name}\n" for name in names)
        mirrors.git.run(mirror, "update-ref", "--stdin", input=commands.encode())
    return names

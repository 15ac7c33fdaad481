"""What a repository must be for a run: each check raises one sentence with the mend, and writes nothing.

They read a repository at hand: a path hub itself, or what was fetched of a URL hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shared.base.errors import GitError, UsageError
from shared.hub.git import Git
from shared.hub.refs import BRANCHES

_GITLINK = "160000"
_SHOWN = 3
# What denies a push to a checked-out branch; unset means refuse. `updateInstead`, `warn`, `ignore` let it pass.
_DENYING = ("", "refuse", "true", "yes", "on", "1")


def check_kind(git: Git, repository: Path, shown: str) -> None:
    """Refuse a repository whose history or objects are not complete.

    Raises:
        UsageError: shallow, partial, or with another object format than SHA-1.
    """
    if git.run(repository, "rev-parse", "--is-shallow-repository").line == "true":
        raise UsageError(
            f"{shown} is a shallow clone, which is not supported; complete it with `git fetch --unshallow`"
        )
    if git.run(repository, "config", "--get", "extensions.partialClone", check=False).line:
        raise UsageError(f"{shown} is a partial clone, which is not supported; clone it in full and try again")
    object_format = git.run(repository, "rev-parse", "--show-object-format").line
    if object_format != "sha1":
        raise UsageError(f"{shown} uses {object_format} object names, which are not supported; use a SHA-1 repository")


def check_content(git: Git, repository: Path, commit: str, shown: str) -> None:
    """Refuse what a worktree of the farm could not hold whole: submodules and Git LFS.

    Raises:
        UsageError: naming the kind and the paths.
    """
    entries = git.run(repository, "ls-tree", "-r", "-z", "--full-tree", commit).records
    modules: list[str] = []
    attributes: list[tuple[str, str]] = []
    for entry in entries:
        facts, path = entry.split("\t", 1)
        mode, _, blob = facts.split(" ")
        if mode == _GITLINK or path == ".gitmodules":
            modules.append(path)
        elif path.rsplit("/", 1)[-1] == ".gitattributes":
            attributes.append((path, blob))
    if modules:
        raise UsageError(
            f"{shown} has submodules at its base ({_some(modules)}), which are not supported; "
            "start from a commit without them"
        )
    lfs = [path for path, blob in attributes if _names_lfs(git.run(repository, "cat-file", "blob", blob).out)]
    if lfs:
        raise UsageError(
            f"{shown} keeps files in Git LFS at its base (see {_some(lfs)}), which is not supported; "
            "start from a commit without filter=lfs"
        )


def _names_lfs(attributes: bytes) -> bool:
    lines = (line.strip() for line in attributes.splitlines())
    return any(b"filter=lfs" in line.split()[1:] for line in lines if line and not line.startswith(b"#"))


def check_target_name(git: Git, target: str, branches: Mapping[str, str]) -> None:
    """Refuse a target that can be no branch beside those that exist.

    Raises:
        UsageError: no branch name, or one that another branch's name stands in the way of.
    """
    # git makes no branch HEAD, and nobody could name one: the word means what is checked out. What begins with refs/
    # and is no branch is a tag or somebody's own ref.
    unusable = target.startswith(("-", "refs/")) or target in ("", "HEAD")
    if unusable or git.run("/", "check-ref-format", BRANCHES + target, check=False).exit_status != 0:
        raise UsageError(f"{target!r} is no branch name; choose one such as crw/result with --target")
    name = BRANCHES + target
    for other in branches:
        if name.startswith(other + "/") or other.startswith(name + "/"):
            raise UsageError(
                f"a branch {target!r} cannot be made beside the branch {other.removeprefix(BRANCHES)!r}; "
                "choose another --target"
            )


def check_target_of_path(git: Git, repository: Path, target: str) -> None:
    """Refuse a target branch that a working directory has checked out and that a push may not move.

    Raises:
        UsageError: naming that directory and the ways out.
    """
    if _is_off(git, repository):
        return
    listed = git.run(repository, "worktree", "list", "--porcelain", "-z").records
    directory, bare = "", False
    for record in listed:
        if record.startswith("worktree "):
            directory, bare = record.removeprefix("worktree "), False
        bare = bare or record == "bare"
        if record == f"branch {BRANCHES}{target}" and not bare:
            raise UsageError(
                f"the target branch {target!r} is checked out in {directory}, and git refuses a push to it; "
                "choose another --target, switch that directory to another branch, or set "
                "receive.denyCurrentBranch=updateInstead there"
            )


def _is_off(git: Git, repository: Path) -> bool:
    word = git.run(repository, "config", "--get", "receive.denyCurrentBranch", check=False).line
    return word.lower() not in _DENYING


def check_push(git: Git, repository: Path, hub_url: str, commit: str, probe: str, shown: str) -> None:
    """Push and delete a probe ref: a dry run says yes to a push that is then refused.

    Raises:
        UsageError: the hub does not take it.
    """
    try:
        git.run(repository, "push", "--quiet", "--no-verify", "--", hub_url, f"{commit}:{probe}")
        git.run(repository, "push", "--quiet", "--no-verify", "--", hub_url, f":{probe}")
    except GitError as error:
        raise UsageError(
            f"{shown} does not take a push from here ({error}); give this account write access and try again"
        ) from None


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more

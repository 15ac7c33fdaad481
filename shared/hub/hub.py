"""Decide whether a run can work on a repository, before anything is written.

A path (also as file://) is a hub that only this machine has: the run is bound to it
by a label. Everything else is a URL, read and written over the network.
Source: rules of the protocol, 40; design of the farm, "Hosts, placement and loss".
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shared.base.errors import GitError, UsageError
from shared.base.log import mask_url
from shared.hub.checks import check_content, check_kind, check_push, check_target_name, check_target_of_path
from shared.hub.git import Git
from shared.hub.machine import machine_label
from shared.hub.refs import BRANCHES, NAMESPACE, parse_listing

_SCP_LIKE = re.compile(r"[^/:]+:.*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CHECK_TIMEOUT_SECONDS = 300.0
# A hub that takes a connection and then says nothing; the listing alone is small also for a large one.
_LIST_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Hub:
    """A repository that a run may be started on.

    Shape: `url` an absolute path or a URL, as `RunSpec.hub` takes it; `base_commit`
    40 hex; `machine` the label that binds the run here, None for a URL.
    """

    url: str
    base_commit: str
    is_path: bool
    machine: str | None


def check_hub(repo: str, base: str | None, target: str | None, git: Git | None = None) -> Hub:
    """The hub for a run, or the reason why there can be none.

    Args:
        repo: a path, file:// or a URL.
        base: what the run starts from; default the repository's HEAD.
        target: the branch to integrate into; None for the run's own, which nothing stands in the way of.

    Raises:
        UsageError: one sentence with the mend; the repository is as it was.
    """
    git = git or Git(_CHECK_TIMEOUT_SECONDS)
    target = target.removeprefix(BRANCHES) if target is not None else None
    path = local_path(repo)
    return _check_path(git, path, repo, base, target) if path is not None else _check_url(git, repo, base, target)


def local_path(repo: str) -> Path | None:
    """The absolute path of a hub that is one, else None."""
    if repo.startswith("file://"):
        return Path(unquote(urlsplit(repo).path))
    if not os.path.exists(os.path.expanduser(repo)) and ("://" in repo or _SCP_LIKE.fullmatch(repo)):
        return None
    # Not resolved: the name given is the name used, whatever characters it ends in.
    return Path(os.path.abspath(os.path.expanduser(repo)))


def hub_name(repo: str) -> str:
    """A repository as a run's record names it: its URL, or the absolute path of its root.

    Raises:
        UsageError: a path that is no repository.
    """
    path = local_path(repo)
    if path is None:
        return repo
    if not path.is_dir():
        raise UsageError(f"there is no directory {repo}; give the path or URL of a git repository with --repo")
    return str(_root(Git(), path, repo))


def _check_path(git: Git, path: Path, shown: str, base: str | None, target: str | None) -> Hub:
    if not path.is_dir():
        raise UsageError(f"there is no directory {shown}; give the path or URL of a git repository with --repo")
    root = _root(git, path, shown)
    check_kind(git, root, shown)
    if not git.run(root, "rev-list", "-n1", "--all", "HEAD", "--", check=False).line:
        raise UsageError(f"{shown} has no commit yet; make a first commit and try again")
    # As where only the hub's listing tells: a branch comes before a tag of its name, which git itself would take.
    commit = (base and _resolve(git, root, f"{BRANCHES}{base}")) or _resolve(git, root, base or "HEAD")
    if commit is None:
        raise UsageError(f"{shown} has no commit {base or 'HEAD'!r}; give a branch, tag or commit with --base")
    check_content(git, root, commit, shown)
    if target is not None:
        listed = git.run(root, "for-each-ref", "--format=%(refname)", BRANCHES).line.split("\n")
        check_target_name(git, target, {name: "" for name in listed if name})
        check_target_of_path(git, root, target)
    if not os.access(root, os.W_OK):
        raise UsageError(f"{shown} is not writable for this user; results could not be pushed to it")
    return Hub(str(root), commit, True, machine_label())


def _root(git: Git, path: Path, shown: str) -> Path:
    found = git.run(path, "rev-parse", "--show-cdup", check=False)
    if found.exit_status != 0:
        because = "" if "not a git repository" in found.err else f" ({found.err.strip().splitlines()[0]})"
        raise UsageError(f"{shown} is not a git repository{because}; give the path or URL of one with --repo")
    if found.line:
        return Path(os.path.normpath(path / found.line))
    inside_git_dir = git.run(path, "rev-parse", "--is-inside-git-dir").line == "true"
    return Path(git.run(path, "rev-parse", "--absolute-git-dir").line) if inside_git_dir else path


def _resolve(git: Git, repository: Path, name: str) -> str | None:
    found = git.run(
        repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", check=False
    )
    return found.line if _COMMIT.fullmatch(found.line) else None


def _check_url(git: Git, url: str, base: str | None, target: str | None) -> Hub:
    shown = mask_url(url)
    if url.startswith("-"):
        raise UsageError(f"{shown} is no repository; give the path or URL of one with --repo")
    try:
        advertised = _advertised(git, url)
    except GitError as error:
        raise UsageError(f"{shown} cannot be read ({error}); check the URL and this account's access") from None
    if not advertised:
        raise UsageError(f"{shown} has no commit yet; push a first commit and try again")
    if target is not None:
        check_target_name(git, target, {name: "" for name in advertised if name.startswith(BRANCHES)})
    with tempfile.TemporaryDirectory(prefix="crw-check-") as directory:
        repository = Path(directory)
        git.run(repository, "init", "--quiet", "--bare")
        commit = _fetch_base(git, repository, url, base, advertised)
        if commit is None:
            raise UsageError(f"{shown} has no commit {base or 'HEAD'!r}; give a branch, tag or full commit with --base")
        check_content(git, repository, commit, shown)
        probe = f"{NAMESPACE}/probe-{secrets.token_hex(8)}"
        check_push(git, repository, url, commit, probe, shown)
    return Hub(url, commit, False, None)


def _advertised(git: Git, url: str) -> dict[str, str]:
    return parse_listing(git.run("/", "ls-remote", "--", url, timeout_seconds=_LIST_TIMEOUT_SECONDS).line)


def _fetch_base(git: Git, repository: Path, url: str, base: str | None, advertised: dict[str, str]) -> str | None:
    """The base commit, present in `repository` with its tree; None when the hub has no such commit."""
    names = [base or "HEAD", f"{BRANCHES}{base}", f"refs/tags/{base}"]
    known = next((advertised[name] for name in names if name in advertised), None)
    wanted = known or (base if base and _COMMIT.fullmatch(base) else None)
    if wanted is None:
        return None
    fetched = git.run(repository, "fetch", "--quiet", "--depth=1", "--no-tags", "--", url, wanted, check=False)
    return _resolve(git, repository, wanted) if fetched.exit_status == 0 else None

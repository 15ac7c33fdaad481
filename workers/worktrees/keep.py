"""Keep a commit: on the hub first, then in the mirror, and only then may a row name it.

A tree that no ref names is lost to the next `git gc`, and a ref of this machine is
lost with the machine. While the hub is awaited a ref of the mirror alone
(`…/keeping/…`) holds the commit. Source: rules of the protocol, 9; failure stories on work that
nobody could restore.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shared.base.crashpoint import crashpoint
from shared.base.errors import GitError
from shared.hub.git import Git
from shared.hub.push import Pushed, patiently, push
from shared.hub.refs import NAMESPACE, read_ref
from shared.model.rows import NewCallRow

_TRIES = 3


class RefTaken(GitError):
    """The ref names another commit on the hub, which was to stay."""


Append = Callable[[NewCallRow], object]
"""Writes an intent row and returns when it is committed; raises when the right to go on is lost."""


@dataclass(frozen=True)
class Keeping:
    """How a push is announced and how long it is tried while the hub is away."""

    append: Append
    should_stop: Callable[[], object]
    patience_seconds: float


def keep(
    git: Git,
    mirror: Path,
    hub_url: str,
    ref: str,
    commit: str,
    keeping: Keeping,
    expected: str | None = None,
    *,
    replace: bool = True,
) -> None:
    """Make `ref` name `commit` on the hub and in the mirror.

    Whatever else the ref names gives way: no row names it, or it is an earlier state of the same call.

    Args:
        expected: what the ref named last, as far as rows tell.
        replace: False where a row may name what the ref has already.

    Writes: a `push_requested` row before each push, the ref on the hub, the ref in the mirror.

    Raises:
        RefTaken: the ref names another commit, and is not to be replaced.
        GitError: the hub stayed away or refuses the ref.
    """
    holding = hold(git, mirror, ref, commit)
    for _ in range(_TRIES):
        keeping.append(NewCallRow("push_requested", {"ref": ref, "commit": commit, "expect": expected}))
        pushed = _push(git, mirror, hub_url, ref, commit, expected, keeping)
        there = commit if pushed.ok else read_ref(git, hub_url, ref)
        if there == commit:
            crashpoint("after:push")
            moves = f"update {ref} {commit}\ndelete {holding}\n"
            git.run(mirror, "update-ref", "--stdin", input=moves.encode())
            return
        if there == expected:
            break
        if not replace:
            raise RefTaken(f"{ref} names {there} already", ref=ref)
        expected = there
    raise GitError(f"the hub refuses {ref}: {pushed.reason}", ref=ref, reason=pushed.reason)


def hold(git: Git, mirror: Path, ref: str, commit: str) -> str:
    """Have the mirror alone hold a commit that is on its way to `ref`; its own ref for that."""
    namespace, _, name = ref.removeprefix(f"{NAMESPACE}/").partition("/")
    holding = f"{NAMESPACE}/{namespace}/keeping/{name}"
    git.run(mirror, "update-ref", holding, commit)
    return holding


def _push(
    git: Git, mirror: Path, hub_url: str, ref: str, commit: str, expected: str | None, keeping: Keeping
) -> Pushed:
    def attempt() -> Pushed:
        return push(git, mirror, hub_url, {ref: commit}, {ref: expected})

    return patiently(attempt, keeping.should_stop, keeping.patience_seconds)

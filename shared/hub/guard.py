"""The guard: a ref of the run that every push to a target moves, and that shuts out whoever lost the right.

The order closes the race. Who pushes: read the guard, commit the intent row (the
journal refuses it to a stale claim or a stopping run), push target and guard in one
atomic push under the value read. Who takes the right away (cancel, takeover, host
lost): raise the fence or set `stop` in the journal, then `move_guard`. A push whose
intent came first carries the old guard and is refused by the hub from then on; one
that reads the new guard gets no intent any more.

Keep refs (pending, commit, retired) are not guarded: a late push of one stores the
same object again under its own name. Deletions of them are (`deletion.py`).
Source: rules of the protocol, 7.
"""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from shared.base.errors import GitError
from shared.hub.git import Git
from shared.hub.push import Pushed, push
from shared.hub.refs import guard_ref, read_ref

_TRIES = 10
_NOBODY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "crw-farm"), ("EMAIL", "crw-farm@localhost"), ("DATE", "@0 +0000"))
}


def make_guard(git: Git, directory: Path, moved_by: str) -> str:
    """A new value for a guard: a commit of the empty tree that no other guard equals."""
    tree = git.run(directory, "mktree", input=b"").line
    words = f"crw guard\n\nmoved by {moved_by}\n{secrets.token_hex(16)}\n"
    return git.run(directory, "commit-tree", tree, "-F", "-", input=words.encode(), env=_NOBODY).line


def push_guarded(
    git: Git,
    mirror: Path,
    hub_url: str,
    run_id: str,
    refs: dict[str, str],
    expect: dict[str, str | None],
    guard: str | None,
    moved_by: str,
) -> Pushed:
    """`push`, together with the run's guard from `guard`, the value read before the intent was committed."""
    name = guard_ref(run_id)
    new = make_guard(git, mirror, moved_by)
    return push(git, mirror, hub_url, {**refs, name: new}, {**expect, name: guard})


def move_guard(git: Git, hub_url: str, run_id: str, moved_by: str) -> str:
    """Shut out every push of the run whose intent is older than this call.

    Returns:
        The guard's new value.

    Raises:
        GitError: the hub cannot be reached or refuses the ref.
    """
    name = guard_ref(run_id)
    with tempfile.TemporaryDirectory(prefix="crw-guard-") as directory:
        git.run(directory, "init", "--quiet", "--bare")
        for _ in range(_TRIES):
            new = make_guard(git, Path(directory), moved_by)
            pushed = push(git, Path(directory), hub_url, {name: new}, {name: read_ref(git, hub_url, name)})
            if pushed.ok:
                return new
    raise GitError(f"the guard of run {run_id} could not be moved: {pushed.reason}", run=run_id, output=pushed.reason)

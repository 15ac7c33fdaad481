"""Delete the refs of a run on the hub, in pushes that the guard shuts out of a run that is in use again.

A push that was given up may still lie at the hub, which applies it whenever it comes to
it. The old value of a ref is no protection then: a resumed run has most of its refs where
they were, and makes others again just so. So each deletion moves the guard too, and a
resume of a run that was cleaned moves it first. Source: rules of the protocol, 7 and 39.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from shared.base.errors import GitError
from shared.hub.git import Git
from shared.hub.guard import push_guarded
from shared.hub.push import push
from shared.hub.refs import guard_ref, read_refs, run_namespace

_BATCH = 200
_TRIES = 5
_DELETE = ""
# Whoever removes may be silent for some minutes (`shared/journal/removals.py`), and is while a hub hangs.
DELETION_SECONDS = 120.0


def delete_run_refs(git: Git, hub_url: str, run_id: str, go_on: Callable[[], None] = lambda: None) -> list[str]:
    """Remove every ref of a run from the hub; target branches are none of them.

    Args:
        go_on: called before each push; what it raises ends the removal there.

    Returns:
        The names that were there and are gone now.

    Raises:
        GitError: the hub cannot be reached, refuses it, or its answer was lost.
    """
    git = Git(min(DELETION_SECONDS, git.timeout_seconds))
    listed, refused = f"{run_namespace(run_id)}/*", 0
    there = found = read_refs(git, hub_url, listed)
    with tempfile.TemporaryDirectory(prefix="crw-refs-") as directory:
        git.run(directory, "init", "--quiet", "--bare")
        while found:
            go_on()
            reason = _delete_some(git, Path(directory), hub_url, run_id, found)
            if reason is not None:
                # Somebody else removes as well, or has moved the guard.
                refused += 1
                if refused == _TRIES:
                    raise GitError(f"the refs of run {run_id} cannot be deleted: {reason}", run=run_id, output=reason)
            found = read_refs(git, hub_url, listed)
    return sorted(there)


def _delete_some(git: Git, directory: Path, hub_url: str, run_id: str, found: dict[str, str]) -> str | None:
    """Delete some of the refs that were found, the guard last; why the hub did not."""
    name = guard_ref(run_id)
    batch = sorted(found.keys() - {name})[:_BATCH]
    if not batch:
        pushed = push(git, directory, hub_url, {name: _DELETE}, {name: found[name]})
    else:
        expect: dict[str, str | None] = {ref: found[ref] for ref in batch}
        gone = dict.fromkeys(batch, _DELETE)
        pushed = push_guarded(git, directory, hub_url, run_id, gone, expect, found.get(name), "removal")
    return None if pushed.ok else pushed.reason

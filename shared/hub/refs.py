"""The refs of a run: their names, and reading them on the hub.

refs/crw/flow/<run>/pending/<call>      the tree an executor call left, wrapped in a commit
refs/crw/flow/<run>/commit/<node>/<n>   the node's n-th commit
refs/crw/flow/<run>/retired/<node>/a<n> what stood in a worktree that was left
refs/crw/flow/<run>/stray/<call>        a commit that an executor made by itself, at which it left HEAD
refs/crw/flow/<run>/superseded/<lineage>/<path>@<node>               what stood in a worktree that a resume replaced
refs/crw/flow/<run>/superseded/<lineage>/<path>@<node>-held-<call>   what a held call had there before
                                                                     (both with -2, -3 … where that is taken)
refs/crw/flow/<run>/guard               see `guard.py`
"""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import quote

from shared.hub.git import Git

NAMESPACE = "refs/crw/flow"
BRANCHES = "refs/heads/"
# A component of a ref is a file's name on many hubs.
_COMPONENT_LIMIT = 120


def run_namespace(run_id: str) -> str:
    """The prefix of all refs of a run, without a slash at its end."""
    return f"{NAMESPACE}/{run_id}"


def pending_ref(run_id: str, call_id: str) -> str:
    """The ref of the tree that an executor call left."""
    return f"{run_namespace(run_id)}/pending/{call_id}"


def commit_ref(run_id: str, node_id: str, number: int) -> str:
    """The ref of a node's n-th commit (from 1)."""
    return f"{run_namespace(run_id)}/commit/{node_id}/{number}"


def retired_ref(run_id: str, node_id: str, allocation: int) -> str:
    """The ref of what stood in a node's worktree number `allocation`."""
    return f"{run_namespace(run_id)}/retired/{node_id}/a{allocation}"


def stray_ref(run_id: str, call_id: str) -> str:
    """The ref of the commit at which an executor call left HEAD without the farm having made it."""
    return f"{run_namespace(run_id)}/stray/{call_id}"


def superseded_ref(
    run_id: str, lineage: int, path: str, node_id: str, held_call: str | None = None, number: int = 1
) -> str:
    """The ref of what stood in a node's worktree that the resume `lineage` replaced for a call at `path`.

    Args:
        held_call: the ref of what this held call had in the worktree instead.
        number: how many there are, when more than one was replaced there: a host was lost in between.
    """
    held = f"-held-{held_call}" if held_call is not None else ""
    again = f"-{number}" if number > 1 else ""
    return f"{run_namespace(run_id)}/superseded/{lineage}/{_component(path)}@{node_id}{held}{again}"


def _component(path: str) -> str:
    """A script path as one component of a ref: percent-encoded, and cut with a digest where it is too long."""
    encoded = quote(path, safe="").replace(".", "%2E").replace("~", "%7E")
    if len(encoded) <= _COMPONENT_LIMIT:
        return encoded
    return f"{encoded[:_COMPONENT_LIMIT].rstrip('%')}-{sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def guard_ref(run_id: str) -> str:
    """The ref that every push to a target moves as well."""
    return f"{run_namespace(run_id)}/guard"


def branch_ref(name: str) -> str:
    """The full name of a branch given as `main` or `refs/heads/main`."""
    return name if name.startswith("refs/") else BRANCHES + name


def read_refs(git: Git, hub_url: str, *patterns: str) -> dict[str, str]:
    """What these refs (or patterns such as `refs/crw/flow/<run>/*`) are on the hub; absent ones are left out.

    Raises:
        GitError: the hub cannot be reached.
    """
    found = parse_listing(git.run("/", "ls-remote", "--refs", "--", hub_url, *patterns).line)
    # ls-remote matches the end of a name; an exact question gets an exact answer.
    exact = set(patterns)
    return {name: value for name, value in found.items() if name in exact or any("*" in item for item in patterns)}


def parse_listing(text: str) -> dict[str, str]:
    """ref -> object of what `git ls-remote` printed."""
    found = {}
    for line in filter(None, text.split("\n")):
        value, name = line.split("\t", 1)
        found[name] = value
    return found


def read_ref(git: Git, hub_url: str, ref: str) -> str | None:
    """What one ref is on the hub, or None."""
    return read_refs(git, hub_url, ref).get(ref)

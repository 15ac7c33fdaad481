"""Git's facts about all nodes of a run on this host, in few git processes.

One process lists the HEADs of all worktrees. Only a HEAD that is not where the rows
have it is looked at further, and only a worktree on whose files a verdict hangs is
snapshotted, several at once: a run whose nodes are committed costs one process,
however many they are. Nothing is changed; a snapshot writes objects that no ref names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from shared.base.errors import GitError, WorktreeError
from shared.hub.git import Git
from shared.hub.refs import pending_ref, read_refs, run_namespace
from workers.proofs.commit_chain import Head, NodeFacts, parents_of, with_ancestors
from workers.proofs.executor import view_node
from workers.proofs.record import NodeRecord, Turned
from workers.worktrees.allocator import is_within
from workers.worktrees.commit import REQUEST_TRAILER
from workers.worktrees.mirror import Mirrors
from workers.worktrees.snapshot import snapshot

_AT_ONCE = 2 * (os.cpu_count() or 1)
_TRAILER = re.compile(rf"^{REQUEST_TRAILER}: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Seen:
    """The files of one worktree.

    Shape: `tree` of them, or None and the `error` why they cannot be read; `kept` the tree on the mirror's ref that
    keeps the work of a held call from there, None where that is gone or none is asked for.
    """

    tree: str | None
    error: str | None = None
    kept: str | None = None


@dataclass(frozen=True)
class RunFacts:
    """Shape: `nodes` by node id; `held` what the own worktree of each held executor call holds, by call id."""

    nodes: Mapping[str, NodeFacts]
    held: Mapping[str, Seen]


def gather(
    mirrors: Mirrors, hub: str, run_id: str, records: Iterable[NodeRecord], strangers: Container[str] = ()
) -> RunFacts:
    """Look at the worktrees of nodes whose current worktree is on this host.

    Args:
        strangers: the workers of this host's name that had another home: what they made is not here, whatever its path.
    """
    git, mirror = mirrors.git, mirrors.path_of(hub)
    asked = {record.node: record for record in records if record.current is not None}
    heads = read_heads(git, mirror)
    home = os.path.realpath(mirrors.state_dir)
    nodes = {node: _with_head(record, heads, home, strangers) for node, record in asked.items()}
    for node, facts in nodes.items():
        nodes[node] = _explain_head(git, mirror, asked[node], facts)
    homeless = [node for node, facts in nodes.items() if facts.head is None]
    seen = _look_on_hub(mirrors, hub, run_id, [asked[node] for node in homeless])
    for node in homeless:
        nodes[node] = replace(nodes[node], gone=seen.gone, unkept=seen.unkept)
    wanted = {node: asked[node].current.path for node in nodes if _needs_files(asked[node], nodes[node])}  # type: ignore[union-attr]
    held = [turned for node in nodes if not nodes[node].given_up for turned in held_calls(asked[node])]
    files = read_files(git, {*wanted.values(), *(turned.worktree for turned in held)})
    kept = read_kept(git, mirror, {turned.kept_on for turned in held if turned.kept_on is not None})
    for node, path in wanted.items():
        nodes[node] = replace(nodes[node], snapshot=files[path].tree, error=nodes[node].error or files[path].error)
    seen_of = {one.call_id: replace(files[one.worktree], kept=kept.get(one.kept_on or "")) for one in held}
    return RunFacts(nodes, seen_of)


def held_calls(record: NodeRecord) -> list[Turned]:
    """The executor calls of a node whose last event is held."""
    return [turned for turned in record.turned if turned.newest and turned.status == "held"]


def _needs_files(record: NodeRecord, facts: NodeFacts) -> bool:
    view = view_node(record, facts)
    return view is not None and view.needs_snapshot and not facts.given_up


def read_heads(git: Git, mirror: Path) -> Mapping[str, str]:
    """Real path of each worktree of the mirror -> its HEAD."""
    if not mirror.is_dir():
        return {}
    heads: dict[str, str] = {}
    path = ""
    for item in git.run(mirror, "worktree", "list", "--porcelain", "-z").records:
        word, _, value = item.partition(" ")
        if word == "worktree":
            path = value
        elif word == "HEAD" and value.strip("0"):
            heads[path] = value
    return heads


def _look_on_hub(mirrors: Mirrors, hub: str, run_id: str, records: Sequence[NodeRecord]) -> NodeFacts:
    """What of nodes without a worktree the hub has no more: what a next worktree would be made of, on any host.

    A run that was cleaned has only what is on a branch. A hub that is away says nothing.
    """
    made = {made.commit for record in records for made in record.made if made.commit != made.parent}
    left = {turned.call_id for record in records for turned in record.turned if turned.tree is not None}
    if not made and not left:
        return NodeFacts()
    try:
        refs = read_refs(mirrors.git, hub, f"{run_namespace(run_id)}/*")
        kept = made.intersection(refs.values())
        if kept != made:
            kept |= _on_branches(mirrors.git, mirrors.ensure(hub, run_id), made - kept)
    except (GitError, WorktreeError):
        return NodeFacts()
    gone = made.difference(*(with_ancestors(kept, parents_of(record)) for record in records))
    return NodeFacts(
        gone=frozenset(gone), unkept=frozenset(call for call in left if pending_ref(run_id, call) not in refs)
    )


def _on_branches(git: Git, mirror: Path, commits: set[str]) -> set[str]:
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    found = git.run(mirror, "cat-file", "--batch-check=%(objectname)", input=asked).line.split("\n")
    present = commits.intersection(found)
    # The second --not ends the first: what comes from the input is what is asked about.
    beside = ("rev-list", "--not", "--remotes=origin", "--tags", "--not", "--stdin")
    listed = git.run(mirror, *beside, input="".join(f"{commit}\n" for commit in present).encode()).line.split("\n")
    return present.difference(listed) if present else present


def _with_head(record: NodeRecord, heads: Mapping[str, str], home: str, strangers: Container[str]) -> NodeFacts:
    current = record.current
    assert current is not None
    path = os.path.realpath(current.path)
    if current.worker in strangers or not is_within(home, path):
        return NodeFacts(given_up=True)
    # git remembers a worktree whose directory is gone.
    if not os.path.lexists(os.path.join(current.path, ".git")):
        return NodeFacts(error=f"there is no worktree at {current.path} any more")
    head = heads.get(path)
    if head is None:
        return NodeFacts(error=f"{current.path} is no worktree that git knows, or its HEAD is broken")
    return NodeFacts(Head(head))


def _explain_head(git: Git, mirror: Path, record: NodeRecord, facts: NodeFacts) -> NodeFacts:
    """What there is to know of a HEAD that is not the last recorded commit; the others are as the rows say."""
    view = view_node(record, facts)
    if facts.head is None or view is None or not view.standing.foreign:
        return facts
    head = _read_head(git, mirror, facts.head.commit)
    if head is None:
        return NodeFacts(error=f"HEAD names {facts.head.commit}, which is no commit here")
    return replace(facts, head=head, in_head=_recorded_in(git, mirror, record, head.commit))


def _read_head(git: Git, mirror: Path, commit: str) -> Head | None:
    read = git.run(mirror, "cat-file", "commit", commit, check=False)
    if read.exit_status != 0:
        return None
    fields, _, message = read.out.decode("utf-8", "surrogateescape").partition("\n\n")
    named = [line.partition(" ") for line in fields.split("\n")]
    requests = _TRAILER.findall(message)
    return Head(
        commit,
        tree=next((value for word, _, value in named if word == "tree"), None),
        parents=tuple(value for word, _, value in named if word == "parent"),
        request=requests[-1] if requests else None,
    )


def _recorded_in(git: Git, mirror: Path, record: NodeRecord, head: str) -> frozenset[str]:
    """The recorded commits in the history of a HEAD, newest asked first: with one come all it was made on."""
    parents = parents_of(record)
    found: set[str] = set()
    candidates = [made.commit for made in reversed(record.made)] + [tree.start for tree in reversed(record.worktrees)]
    for commit in dict.fromkeys(candidates):
        if commit in found or not is_ancestor(git, mirror, commit, head):
            continue
        at: str | None = commit
        while at is not None and at not in found:
            found.add(at)
            at = parents.get(at)
    return frozenset(found)


def is_ancestor(git: Git, mirror: Path, commit: str, of: str) -> bool:
    """Whether a commit is another one or in its history; one that is not in the mirror is not."""
    return git.run(mirror, "merge-base", "--is-ancestor", commit, of, check=False).exit_status == 0


def read_files(git: Git, worktrees: Iterable[str]) -> Mapping[str, Seen]:
    """The files of worktrees, several read at once; by path."""
    paths = sorted(set(worktrees))
    if not paths:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(paths)), thread_name_prefix="proofs") as pool:
        return dict(zip(paths, pool.map(lambda path: _read(git, path), paths), strict=True))


def read_kept(git: Git, mirror: Path, refs: Iterable[str]) -> Mapping[str, str]:
    """Ref of the mirror -> the tree of its commit; one that is gone is left out."""
    names = sorted(refs)
    if not names or not mirror.is_dir():
        return {}
    asked = "".join(f"{name}^{{tree}}\n" for name in names).encode()
    found = git.run(mirror, "cat-file", "--batch-check=%(objectname)", input=asked).line.split("\n")
    return {name: tree for name, tree in zip(names, found, strict=True) if not tree.endswith(" missing")}


def _read(git: Git, path: str) -> Seen:
    try:
        return Seen(snapshot(git, Path(path)))
    except (WorktreeError, GitError) as error:
        return Seen(None, str(error))

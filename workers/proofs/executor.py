"""Is what the executor calls of a node left still there? Pure: a node's record and git's facts in, verdicts out.

    covered     a recorded commit carries the call's state: proven while HEAD descends from it
    abandoned   a later fresh worktree took nothing of it: proven as the recorded fact it is
    uncovered   judged by the files of the node's worktree, and by where its HEAD stands

Only a call that completed has something to prove. A refused one, one without an answer
and one whose outcome is unknown left no state that anybody goes on from; they count as
what explains files that nobody else left.
Source: journal document, "Build and fix"; rules of the protocol, 10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.model.proof import Verdict, short
from workers.proofs.commit_chain import (
    Line,
    Lines,
    NodeFacts,
    Standing,
    read_history,
    read_lines,
    read_standing,
)
from workers.proofs.record import NodeRecord, Turned


@dataclass(frozen=True)
class NodeView:
    """A node between its rows and the verdicts: the lines, where HEAD stands, and what its history holds."""

    record: NodeRecord
    lines: Lines
    line: Line
    standing: Standing
    history: frozenset[str]

    @property
    def uncovered(self) -> list[Turned]:
        """The calls of the current line that no commit in HEAD's history covers."""
        return self.line.turned[self.line.covered(self.history) :]

    @property
    def needs_snapshot(self) -> bool:
        """Whether the files of the worktree decide anything: nobody is at work there, and a call stands on them."""
        return (
            self.record.at_work is None
            and not self.standing.foreign
            and any(turned.newest and turned.has_effect for turned in self.uncovered)
        )


def view_node(record: NodeRecord, facts: NodeFacts) -> NodeView | None:
    """The node as its rows and HEAD have it; None for one that never had a worktree."""
    lines = read_lines(record)
    if lines.current is None:
        return None
    standing = read_standing(record, lines.current, facts)
    return NodeView(record, lines, lines.current, standing, read_history(record, standing, facts))


def judge_executors(view: NodeView, facts: NodeFacts) -> dict[str, Verdict]:
    """Call id -> why it is not proven, of the node's executor calls; the others are."""
    found: dict[str, Verdict] = {}
    for line in view.lines.all:
        if line is view.line:
            continue
        for turned in line.turned[line.covered(view.history) : line.covered()]:
            _note(found, turned, _left_history(view))
    for turned, verdict in _judge_current(view, facts):
        _note(found, turned, verdict)
    return found


def _note(found: dict[str, Verdict], turned: Turned, verdict: Verdict) -> None:
    if turned.newest and turned.has_effect:
        found[turned.call_id] = verdict


def _judge_current(view: NodeView, facts: NodeFacts) -> Sequence[tuple[Turned, Verdict]]:
    """What breaks among the calls that no commit covers, in order."""
    carried = view.line.turned[view.line.covered(view.history) : view.line.covered()]
    unkept = [turned for turned in view.uncovered if turned.call_id in facts.unkept]
    lost = [*carried, *unkept] if any(made.commit in facts.gone for made in view.line.made) else unkept
    files = [] if facts.given_up else _judge_files(view, facts)
    return [*((turned, _nowhere(view)) for turned in lost), *files]


def _judge_files(view: NodeView, facts: NodeFacts) -> Sequence[tuple[Turned, Verdict]]:
    """What breaks among the calls that stand on the files alone, in order."""
    uncovered = view.uncovered
    if view.standing.foreign:
        return [(turned, _foreign(view, facts)) for turned in uncovered]
    at_work = view.record.at_work
    snapshot = at_work.found if at_work is not None else facts.snapshot
    matching = [
        number for number, turned in enumerate(uncovered) if turned.tree is not None and turned.tree == snapshot
    ]
    if snapshot is not None and matching:
        left = uncovered[matching[-1]]
        return [(turned, _older(view, left, turned, snapshot)) for turned in uncovered[matching[-1] + 1 :]]
    if snapshot is not None and snapshot == _trees(view.record).get(view.line.end):
        return [(turned, _committed(view, turned, snapshot)) for turned in uncovered]
    # Nobody left these files: whoever could write last may have, and no state before that is touched.
    wrote = [number for number, turned in enumerate(uncovered) if turned.wrote]
    broken = uncovered[wrote[-1] :] if wrote else []
    return [(turned, _unknown(view, turned, facts, snapshot)) for turned in broken]


def _trees(record: NodeRecord) -> Mapping[str, str | None]:
    """Commit -> tree, as far as rows say."""
    began = {worktree.start: worktree.began_as for worktree in record.worktrees if worktree.kind == "fresh"}
    return {**began, **{made.commit: made.tree for made in record.made}}


def _foreign(view: NodeView, facts: NodeFacts) -> Verdict:
    kept = [commit for commit in view.line.chain if commit in view.history]
    head = facts.head.commit if facts.head is not None else None
    moved = head in view.line.chain
    stands = "was moved back to" if moved else "is"
    which = "where the node stood earlier" if moved else "which no row of the run made there"
    return Verdict(
        False,
        "foreign_commit",
        f"HEAD of node {view.record.node}'s worktree {stands} {short(head)}, {which}; "
        f"recorded is {short(view.line.end)}",
        {"head": head, "recorded": view.line.end, "last_in_history": kept[-1] if kept else None},
    )


def _left_history(view: NodeView) -> Verdict:
    return Verdict(
        False,
        "commit_left_history",
        f"the commit that carries its work is not in the history of node {view.record.node} any more, which is at "
        f"{short(view.standing.commit)}",
        {"head": view.standing.commit},
    )


def _nowhere(view: NodeView) -> Verdict:
    said = f"the worktree of node {view.record.node} is gone, and what the call left is not on the hub any more"
    return Verdict(False, "work_gone", said)


def _older(view: NodeView, left: Turned, turned: Turned, snapshot: str) -> Verdict:
    return Verdict(
        False,
        "older_state",
        f"the files of node {view.record.node} are those that the earlier call {left.call_id} left",
        {"snapshot": snapshot, "tree": turned.tree, "state_of": left.call_id},
    )


def _committed(view: NodeView, turned: Turned, snapshot: str) -> Verdict:
    return Verdict(
        False,
        "work_gone",
        f"the files of node {view.record.node} are those of its last commit {short(view.line.end)}: what the call "
        "left is gone",
        {"snapshot": snapshot, "tree": turned.tree, "commit": view.line.end},
    )


def _unknown(view: NodeView, turned: Turned, facts: NodeFacts, snapshot: str | None) -> Verdict:
    facts_of = {"snapshot": snapshot, "tree": turned.tree}
    if snapshot is None:
        why = f"the files of node {view.record.node} cannot be read: {facts.error or 'no reason is known'}"
        return Verdict(False, "worktree_unreadable", why, facts_of)
    return Verdict(
        False,
        "files_changed",
        f"the files of node {view.record.node} are not what the call left: recorded is tree {short(turned.tree)}, "
        f"there now is {short(snapshot)}",
        facts_of,
    )

"""The commits of a node as lines, which calls each commit covers, and where HEAD stands. Pure.

A *line* is what grew out of one fresh worktree, through every restore of it: its calls
in order and the chain of its commits from the start commit on. A restore takes the
line up at the boundary's commit; a fresh worktree abandons the line before it.

A commit covers by tree: the latest call of its line that had recorded that very tree
before it, and the calls before that one. When a row was written decides nothing else.
Source: journal document, "Build and fix".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workers.proofs.record import Made, NodeRecord, Turned, Worktree


@dataclass(frozen=True)
class Head:
    """The commit that HEAD of a worktree is now. `request` is the trailer that says which request made it."""

    commit: str
    tree: str | None = None
    parents: tuple[str, ...] = ()
    request: str | None = None


@dataclass(frozen=True)
class NodeFacts:
    """What git says about a node's current worktree.

    Shape:
        head: None where it cannot be read (`error` says why): then nothing contradicts the rows.
        in_head: the recorded commits in HEAD's history, given for a HEAD that no row names.
        snapshot: the tree of its files now; None where it was not asked for or cannot be read.
        gone: the recorded commits that nothing keeps any more, and `unkept` the calls whose recorded tree nothing
            keeps; both are looked for only where there is no worktree.
        given_up: it was another state directory's, which was given up as a host of this name: what the hub has is
            what there is.
    """

    head: Head | None = None
    in_head: frozenset[str] = frozenset()
    snapshot: str | None = None
    error: str | None = None
    gone: frozenset[str] = frozenset()
    unkept: frozenset[str] = frozenset()
    given_up: bool = False


@dataclass
class Line:
    """Shape: `chain` the commits from the start on; `made` the commits recorded in it, also those it left again."""

    chain: list[str]
    turned: list[Turned] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    _numbers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    @property
    def end(self) -> str:
        """The last commit."""
        return self.chain[-1]

    def go_on_from(self, commit: str) -> None:
        """Let the chain end at a commit of it; at another one it begins anew."""
        if commit != self.end:
            self.chain = self.chain[: self.chain.index(commit) + 1] if commit in self.chain else [commit]

    def add_turned(self, turned: Turned) -> None:
        """Add a call."""
        self.turned.append(turned)
        if turned.tree is not None:
            self._numbers[turned.tree].append(len(self.turned))

    def add_made(self, made: Made) -> None:
        """Add a commit. On an earlier element it replaces what came after that; on none of them it is off the chain."""
        self.made.append(made)
        if made.parent is None or made.commit == made.parent:
            return
        if made.parent != self.end and made.parent not in self.chain:
            return
        self.go_on_from(made.parent)
        self.chain.append(made.commit)

    def covered(self, history: frozenset[str] | None = None) -> int:
        """How many calls, from the first on, are covered by a commit; with `history`, by one that is in it."""
        counted = (made for made in self.made if history is None or made.commit in history)
        return max(map(self._covered_by, counted), default=0)

    def _covered_by(self, made: Made) -> int:
        for number in reversed(self._numbers.get(made.tree or "", ())):
            recorded_at = self.turned[number - 1].recorded_at
            if recorded_at is not None and recorded_at < made.seq:
                return number
        return 0


@dataclass(frozen=True)
class Lines:
    """All lines of a node, oldest first. `current` is the one of its worktree, None before the first worktree."""

    all: list[Line]
    current: Line | None


def read_lines(record: NodeRecord) -> Lines:
    """Sort a node's calls and commits into lines."""
    lines: list[Line] = []
    line_of: dict[str, Line] = {}
    steps: list[tuple[int, Worktree | Turned | Made]] = [
        *((worktree.seq, worktree) for worktree in record.worktrees),
        *((turned.began_at, turned) for turned in record.turned),
        *((made.seq, made) for made in record.made),
    ]
    # A worktree and the call that it was made for share a row: the worktree first.
    for _, step in sorted(steps, key=lambda item: (item[0], not isinstance(item[1], Worktree))):
        if isinstance(step, Worktree):
            line = _taken_up(lines, step) if step.kind == "restore" else None
            if line is None:
                line = Line([step.start])
                lines.append(line)
            line_of[step.path] = line
        else:
            home = line_of.get(step.worktree) if step.worktree is not None else None
            if isinstance(step, Made) and home is not None:
                home.add_made(step)
            elif isinstance(step, Turned) and home is not None:
                home.add_turned(step)
    current = record.current
    return Lines(lines, line_of[current.path] if current is not None else None)


def _taken_up(lines: list[Line], restored: Worktree) -> Line | None:
    """The line that a restore goes on with: the newest with its commit that left its tree, else with its commit."""
    of_commit = [line for line in lines if restored.start in line.chain]
    of_tree = [line for line in of_commit if any(turned.tree == restored.began_as for turned in line.turned)]
    for line in reversed(of_tree or of_commit):
        line.go_on_from(restored.start)
        return line
    return None


@dataclass(frozen=True)
class Standing:
    """Where HEAD stands. Shape: `commit` whose history counts; `foreign`: it is on no chain."""

    commit: str
    foreign: bool


def read_standing(record: NodeRecord, line: Line, facts: NodeFacts) -> Standing:
    """Judge HEAD. While a call is at work the rows alone count: its worktree is being edited."""
    head = facts.head
    if record.at_work is not None or head is None or head.commit in (line.end, _end_here(record, line)):
        return Standing(line.end, False)
    its_own = head.request in record.unsettled and head.parents == (line.end,)
    return Standing(head.commit, not (its_own or _is_stray(line, head, facts)))


def _end_here(record: NodeRecord, line: Line) -> str:
    """The last commit of a line that moved HEAD: those behind it were made of the hub's objects on another host."""
    here = record.current.host if record.current is not None else None
    elsewhere = {made.commit for made in line.made if None not in (here, made.host) and made.host != here}
    return next((commit for commit in reversed(line.chain) if commit not in elsewhere), line.end)


def _is_stray(line: Line, head: Head, facts: NodeFacts) -> bool:
    """Whether a call recorded that it left HEAD there: grown from the last commit, holding that call's very tree."""
    return line.end in facts.in_head and any(
        turned.moved is not None
        and (turned.moved.get("head"), turned.moved.get("start")) == (head.commit, line.end)
        and turned.tree == head.tree
        for turned in line.turned
    )


def read_history(record: NodeRecord, standing: Standing, facts: NodeFacts) -> frozenset[str]:
    """The recorded commits in the history of where HEAD stands, as far as they are still to be had."""
    seen = set(facts.in_head) if facts.head is not None and standing.commit == facts.head.commit else set()
    return frozenset(with_ancestors({standing.commit, *seen}, parents_of(record))) - facts.gone


def parents_of(record: NodeRecord) -> Mapping[str, str]:
    """Commit -> parent, as the rows recorded it: a commit's id is a function of its parent's, so this cannot change."""
    return {made.commit: made.parent for made in record.made if made.parent and made.parent != made.commit}


def with_ancestors(commits: Iterable[str], parents: Mapping[str, str]) -> set[str]:
    """These commits, and all that rows say they were made on."""
    found: set[str] = set()
    for commit in commits:
        at: str | None = commit
        while at is not None and at not in found:
            found.add(at)
            at = parents.get(at)
    return found

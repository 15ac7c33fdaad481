"""The boundary of a node: the commit and the tree that a new worktree of it has to hold.

A suffix begins where a recorded position did not replay. What the positions before it
left on a node is a commit (C) and, where a build or fix came after it, a tree that no
commit carries yet (P). From these two and the hub the node's files are made again on
any host; that the tree's id is the same there is the whole proof.

An attempt that was superseded did not happen: no row of it counts here, but for the
numbers that it used up. Everything here is pure: rows in, values out.
Source: journal document, "The suffix" and "The proofs"; App Server document, "Working directories".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.model.allocation import AllocationKind
from shared.model.rows import CallRow


@dataclass(frozen=True)
class HeldTree:
    """What a held call had in the worktree, kept beside it when it is not what stands there now.

    Shape: `unpushed` that the hub has not got it, so that it is kept only where its host makes the next worktree.
    """

    call: str
    tree: str
    unpushed: bool = False

    def to_json(self) -> dict[str, Any]:
        """An item of the member `held` of a boundary."""
        return {"call": self.call, "tree": self.tree, **({"unpushed": True} if self.unpushed else {})}

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> HeldTree:
        """What `to_json` made."""
        return cls(str(value["call"]), str(value["tree"]), bool(value.get("unpushed")))


@dataclass(frozen=True)
class Boundary:
    """What the next worktree of a node begins with.

    Shape:
        lineage: the resume that asks for it; part of the new worktree's name.
        commit: None where the node's first worktree began.
        tree: laid over the commit; None when the commit has everything.
        tree_of: the executor call that left the tree: its pending ref carries it on the hub.
        held: the trees of held calls that give way.
        because: why the node is restored, for people who read the row.
    """

    lineage: int
    commit: str | None = None
    tree: str | None = None
    tree_of: str | None = None
    held: tuple[HeldTree, ...] = ()
    because: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The member `boundary` of a `prepared` row."""
        return {
            "lineage": self.lineage,
            "commit": self.commit,
            "tree": self.tree,
            "tree_of": self.tree_of,
            "held": [held.to_json() for held in self.held],
            "because": dict(self.because),
        }

    @classmethod
    def read(cls, value: Mapping[str, Any] | None) -> Boundary | None:
        """From a `prepared` row's member `boundary`; None when the row has none."""
        if value is None:
            return None
        return cls(
            lineage=int(value["lineage"]),
            commit=value.get("commit"),
            tree=value.get("tree"),
            tree_of=value.get("tree_of"),
            held=tuple(map(HeldTree.read, value.get("held") or ())),
            because=value.get("because") or {},
        )


def boundary_of(node_rows: Sequence[CallRow], lineage: int = 1, **because: Any) -> Boundary:
    """The boundary that a node's standing rows leave.

    A commit covers the calls up to the newest one whose tree it is; what came after that
    one is not covered, even when its row is older than the commit's. A fresh worktree
    begins at the commit alone and gives up what the one before it held.

    Args:
        node_rows: `placed` rows, and the terminal rows of the node's executor calls and commits.
    """
    commit: str | None = None
    left: list[tuple[str | None, str]] = []
    for row in standing(node_rows):
        if row.event == "placed" and row.worktree_kind == AllocationKind.FRESH:
            left = []
        elif row.event == "placed" and row.worktree_kind == AllocationKind.RESTORE:
            tree = row.detail.get("tree")
            left = [(row.detail.get("tree_of"), tree)] if tree else []
        elif is_commit(row):
            commit, left = row.commit_sha, _not_covered(left, row.detail.get("tree"))
        elif is_executor_end(row) and row.pending_tree is not None:
            left.append((row.call_id, row.pending_tree))
    call, tree = left[-1] if left else (None, None)
    return Boundary(lineage, commit, tree, call, because=because)


def _not_covered(left: list[tuple[str | None, str]], committed: str | None) -> list[tuple[str | None, str]]:
    covered = [number for number, (_, tree) in enumerate(left) if tree == committed]
    return left[covered[-1] + 1 :] if covered else left


def standing(rows: Iterable[CallRow]) -> list[CallRow]:
    """The rows that still count, by seq: none of an attempt that was superseded later, or withdrawn.

    What is superseded takes all before it along, what went on in place too; a withdrawal takes one opening back.
    """
    ordered = without_withdrawn(sorted(rows, key=lambda row: row.seq))
    undone: dict[str, int] = {row.call_id: row.seq for row in ordered if row.event == "superseded"}
    return [row for row in ordered if row.seq > undone.get(row.call_id, 0)]


def without_withdrawn(rows: Sequence[CallRow]) -> list[CallRow]:
    """The rows without those of attempts that were withdrawn: nobody began them, so what stood before them stands."""
    gone = {(row.call_id, row.attempt) for row in rows if row.event == "withdrawn"}
    return [row for row in rows if (row.call_id, row.attempt) not in gone] if gone else list(rows)


def is_commit(row: CallRow) -> bool:
    """Whether it is the end of a `commit` that gave the node a commit."""
    return row.kind == "commit" and row.event == "completed" and row.commit_sha is not None


_ENDS = frozenset({"completed", "null_model", "refused", "held", "outcome_unknown"})


def is_executor_end(row: CallRow) -> bool:
    """Whether an executor call of the node ended with it, among the rows of a node."""
    return row.kind == "agent" and row.event in _ENDS

"""Which directory a call runs in, as its `placed` row records it.

A node's worktree is made fresh at the node's last commit, or restored: the commit with
a recorded tree over it, wherever that is made. A reading call has a checkout, and one
that goes on in a thread at a head it names has one that ends with the call itself
(`own_directory` on its `placed` row, and so on its terminal row).
Source: App Server document, "Working directories".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from shared.model.rows import CallRow


class AllocationKind(StrEnum):
    """How a directory came about: a node's own worktree, one only this call reads, or where its thread is."""

    FRESH = "fresh"
    RESTORE = "restore"
    CALL = "call"
    CONTINUED = "continued"


NODE_KINDS = frozenset({AllocationKind.FRESH.value, AllocationKind.RESTORE.value})
"""The allocations that make a worktree of a node."""


@dataclass(frozen=True)
class Allocation:
    """A directory for a call.

    Shape: `number` counts the worktrees of the node from 1 (0 for a call's own
    directory); `lineage` counts the resumes of the run; `start_commit` is what it is made at.
    """

    kind: AllocationKind
    number: int
    lineage: int
    path: Path
    start_commit: str

    def columns(self) -> dict[str, Any]:
        """The plain columns of the `placed` row."""
        return {
            "worktree_kind": self.kind.value,
            "worktree_path": str(self.path),
            "start_commit": self.start_commit,
            "allocation": self.number or None,
        }

    def detail(self) -> dict[str, Any]:
        """The `placed` row's own words."""
        return {
            "allocation": {
                "kind": self.kind.value,
                "number": self.number,
                "lineage": self.lineage,
                "path": str(self.path),
                "start_commit": self.start_commit,
            }
        }


def own_directory_of(rows: Iterable[CallRow]) -> str | None:
    """The directory that goes with an attempt's end, as the attempt's newest `placed` row says; None for any other.

    Whoever ends the attempt names it on the terminal row (`own_directory` in its detail),
    unless what came of the attempt is not known.
    """
    found: str | None = None
    for row in rows:
        if row.event == "placed":
            found = row.detail.get("own_directory")
    return found

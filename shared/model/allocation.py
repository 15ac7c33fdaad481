"""Which directory a call runs in, as its `placed` row records it.

Source: App Server document, "Working directories".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class AllocationKind(StrEnum):
    """How a directory came about: a node's own worktree, or one that only this call reads."""

    FRESH = "fresh"
    CALL = "call"


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

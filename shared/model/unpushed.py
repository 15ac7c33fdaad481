"""What a held row says of work that is on its host alone, since the hub did not take it. Pure.

No column names a tree that the hub has not: with the host it would be lost, and no other
could restore it. The host that still has it goes on from there all the same.
Source: journal document, "Held calls"; rules of the protocol, 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shared.model.rows import CallRow

_MEMBER = "unpushed"


@dataclass(frozen=True)
class Unpushed:
    """The state in which an executor call was held.

    Shape:
        tree: what its worktree held; `commit` carries it, and `ref` of the host's mirror names that.
        result: the digest of its answer, kept as an artifact: its turns were over and the push alone was left. None
            for a call that has more to do.
    """

    tree: str
    commit: str
    ref: str
    result: str | None = None

    @classmethod
    def read(cls, row: CallRow) -> Unpushed | None:
        """From a held row; None where its work came to the hub, or nobody could keep it."""
        told = row.detail.get(_MEMBER)
        return cls(told["tree"], told["commit"], told["ref"], told.get("result")) if told else None

    def member(self) -> Mapping[str, Any]:
        """The member of a held row's detail."""
        return {_MEMBER: asdict(self)}


def tree_at_hold(row: CallRow) -> str | None:
    """What the worktree of a held call held then, on the hub or not; None where that is not known."""
    unpushed = Unpushed.read(row)
    return unpushed.tree if unpushed is not None else row.held_tree

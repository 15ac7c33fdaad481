"""What the journal says about a node's worktrees and commits. Pure: rows in, facts out.

Source: App Server document, "Working directories"; decision that a second executor
call without `.call` starts fresh at the node's last commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.model.allocation import AllocationKind
from shared.model.events import TERMINAL_WORDS
from shared.model.rows import CallRow

_NOT_RUN = ("withdrawn", "superseded")


@dataclass(frozen=True)
class NodeHistory:
    """A node so far.

    Shape:
        placed: the row of the node's newest worktree, None before the first.
        allocations: how many worktrees it has had.
        first_start: where its first worktree began.
        last_commit: what its last `commit` op gave, None before the first.
        parent: what HEAD of its newest worktree must be: that worktree's last commit, else its start.
        kept_commits: how many of its commits have a ref.
        last_turn: the terminal row of its last executor call.
    """

    placed: CallRow | None
    allocations: int
    first_start: str | None
    last_commit: str | None
    parent: str | None
    kept_commits: int
    last_turn: CallRow | None

    def start_commit(self, head: str | None, base: str) -> str:
        """Where a new worktree begins: the node's last commit, else where its first one began, else `head`, `base`."""
        return self.last_commit or self.first_start or head or base


def read_history(rows: Sequence[CallRow]) -> NodeHistory:
    """The history that a node's rows tell: `placed`, and the terminal rows of its executor calls and commits."""
    ordered = sorted(rows, key=lambda row: row.seq)
    placed = [row for row in ordered if row.event == "placed" and row.worktree_kind == AllocationKind.FRESH]
    commits = [row for row in ordered if row.kind == "commit" and row.event == "completed" and row.commit_sha]
    turns = [row for row in ordered if _is_executor_end(row)]
    newest = placed[-1] if placed else None
    here = [row.commit_sha for row in commits if newest is not None and row.seq > newest.seq]
    return NodeHistory(
        placed=newest,
        allocations=max((row.allocation or 0 for row in placed), default=0),
        first_start=placed[0].start_commit if placed else None,
        last_commit=commits[-1].commit_sha if commits else None,
        parent=here[-1] if here else newest.start_commit if newest else None,
        kept_commits=sum(1 for row in commits if row.detail.get("ref")),
        last_turn=turns[-1] if turns else None,
    )


def _is_executor_end(row: CallRow) -> bool:
    return row.kind == "agent" and row.event in TERMINAL_WORDS and row.event not in _NOT_RUN

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
        worked_in: the path of the worktree that its last executor call ran in, which an older
            conversation that went on may make another one than the newest.
        allocations: how many worktrees it has had.
        first_start: where its first worktree began.
        last_commit: what its last `commit` op gave, None before the first.
        parent: what HEAD of `worked_in` must be: the last commit made in it, else where it began.
        kept_commits: how many of its commits have a ref.
        last_turn: the terminal row of its last executor call.
    """

    placed: CallRow | None
    worked_in: str | None
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
    last_turn = turns[-1] if turns else None
    worked_in = _directory_of(ordered, last_turn) or (newest.worktree_path if newest else None)
    began = [row.start_commit for row in placed if row.worktree_path == worked_in]
    made = [row.commit_sha for row in commits if row.detail.get("worktree") == worked_in]
    return NodeHistory(
        placed=newest,
        worked_in=worked_in,
        allocations=max((row.allocation or 0 for row in placed), default=0),
        first_start=placed[0].start_commit if placed else None,
        last_commit=commits[-1].commit_sha if commits else None,
        parent=[*began, *made][-1] if began else None,
        kept_commits=sum(1 for row in commits if row.detail.get("ref")),
        last_turn=last_turn,
    )


def _directory_of(rows: Sequence[CallRow], turn: CallRow | None) -> str | None:
    """Where a call ran: its own `placed` row says so, also for one that went on where its thread began."""
    if turn is None:
        return None
    own = [row.worktree_path for row in rows if row.event == "placed" and row.call_id == turn.call_id]
    return own[-1] if own else None


def _is_executor_end(row: CallRow) -> bool:
    return row.kind == "agent" and row.event in TERMINAL_WORDS and row.event not in _NOT_RUN

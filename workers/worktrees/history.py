"""What the journal says about a node's worktrees and commits. Pure: rows in, facts out.

Numbers that were used are used up, whatever became of the attempt that took them; all
else comes from the attempts that still count.

Source: App Server document, "Working directories"; decision that a second executor
call without `.call` starts fresh at the node's last commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.model.allocation import NODE_KINDS
from shared.model.boundary import is_commit, is_executor_end, standing
from shared.model.rows import CallRow


@dataclass(frozen=True)
class NodeHistory:
    """A node so far.

    Shape:
        placed: the row of the node's newest worktree, None before the first; also one that was given up.
        worked_in: the path of the worktree that its last executor call ran in, which an older
            conversation that went on may make another one than the newest.
        worked_on: the host of that worktree.
        allocations: how many worktrees it has had.
        first_start: where its first worktree began.
        last_commit: what its last `commit` op gave, None before the first.
        parent: what HEAD of `worked_in` must be: the last commit made in it, else where it began.
        undone: where HEAD of `worked_in` may still stand: commits made in it that were superseded since, and the
            one before those that another host made of the hub's objects.
        kept_commits: how many of its commits have a ref.
        last_turn: the terminal row of its last executor call.
        made: the rows that made its worktrees, oldest first; a restored one has two.
    """

    placed: CallRow | None
    worked_in: str | None
    worked_on: str | None
    allocations: int
    first_start: str | None
    last_commit: str | None
    parent: str | None
    undone: tuple[str, ...]
    kept_commits: int
    last_turn: CallRow | None
    made: tuple[CallRow, ...] = ()

    def start_commit(self, head: str | None, base: str) -> str:
        """Where a new worktree begins: the node's last commit, else where its first one began, else `head`, `base`."""
        return self.last_commit or self.first_start or head or base


def read_history(rows: Sequence[CallRow]) -> NodeHistory:
    """The history that a node's rows tell: those of its worktrees, and the ends of its executor calls and commits."""
    ordered = sorted(rows, key=lambda row: row.seq)
    counted = standing(ordered)
    made = [row for row in ordered if _makes_worktree(row)]
    placed = [row for row in counted if _makes_worktree(row)]
    every_commit = [row for row in ordered if is_commit(row)]
    commits = [row for row in counted if is_commit(row)]
    turns = [row for row in counted if is_executor_end(row)]
    last_turn = turns[-1] if turns else None
    worked = _place_of(counted, last_turn) or (placed[-1] if placed else None)
    worked_in = worked.worktree_path if worked else None
    parent, undone = recorded_heads(ordered, worked_in)
    return NodeHistory(
        placed=made[-1] if made else None,
        worked_in=worked_in,
        worked_on=worked.host if worked else None,
        allocations=max((row.allocation or 0 for row in made), default=0),
        first_start=made[0].start_commit if made else None,
        last_commit=commits[-1].commit_sha if commits else None,
        parent=parent,
        undone=undone,
        kept_commits=sum(1 for row in every_commit if row.detail.get("ref")),
        last_turn=last_turn,
        made=tuple(made),
    )


def recorded_heads(rows: Sequence[CallRow], worktree: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Where HEAD of a worktree is by the rows, and where it may still stand.

    The first is the last commit made there, else where the worktree began; None for a worktree of no row. The
    others are superseded commits, and the last one that moved HEAD where another host made those behind it.
    """
    began = [row for row in rows if _makes_worktree(row) and row.worktree_path == worktree]
    here = [row for row in rows if is_commit(row) and row.detail.get("worktree") == worktree]
    counted = {row.seq for row in standing(rows)}
    chain = [(row.start_commit, row.host) for row in began]
    chain += [(row.commit_sha, row.host) for row in here if row.seq in counted]
    undone = [row.commit_sha or "" for row in here if row.seq not in counted]
    if not began:
        return None, tuple(undone)
    last, home = chain[-1][0], began[-1].host
    moved = next(commit for commit, host in reversed(chain) if host in (None, home))
    return last, (*undone, *([moved] if moved and moved != last else ()))


def _makes_worktree(row: CallRow) -> bool:
    return row.event in ("placed", "worktree_restored") and row.worktree_kind in NODE_KINDS


def _place_of(rows: Sequence[CallRow], turn: CallRow | None) -> CallRow | None:
    """Where a call ran: its own `placed` row says so, also for one that went on where its thread began."""
    if turn is None:
        return None
    own = [row for row in rows if row.event == "placed" and row.call_id == turn.call_id]
    return own[-1] if own else None

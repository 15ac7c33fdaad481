"""The directory of a call: chosen, announced as `placed`, then made.

An executor call that starts a thread gets a new worktree of its node; any other
call that starts one gets a checkout of its own; a continuation stays where its
thread began. Source: App Server document, "Working directories".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.base.errors import WorktreeError
from shared.hub.refs import retired_ref
from shared.model.rows import CallRow, NewCallRow
from workers.call.context import AgentCall
from workers.call.desk import Desk
from workers.worktrees.directories import Directories
from workers.worktrees.keep import Keeping

CONTINUED = "continued"
_RETIRE_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Place:
    """Where a call runs.

    Shape: `worktree` says that it is a node's, whose state the terminal row records;
    `kept` the refs that keep what earlier worktrees of the node held.
    """

    path: Path
    worktree: bool
    kept: tuple[str, ...] = ()


def place_call(desk: Desk, call: AgentCall, directories: Directories) -> Place:
    """Choose the call's directory, write `placed`, make the directory.

    Writes: `placed`; for a node that had a worktree here, `push_requested` and its retired ref.

    Raises:
        WorktreeError: the directory of a continued thread is gone, or git refuses the new one.
    """
    if call.continues:
        return _stay(desk, call, directories)
    executor = call.executes
    plan = directories.plan_executor if executor else directories.plan_reader
    allocation = plan(call.node_rows, call.head)
    tree = directories.fetch(allocation)
    detail = {**allocation.detail(), "host": desk.host, "snapshot": tree}
    desk.append(NewCallRow("placed", detail, role=call.role.name, snapshot_digest=tree, **allocation.columns()))
    if executor:
        _retire(desk, call, directories)
    directories.make(allocation, desk.should_stop)
    return Place(allocation.path, executor, _kept(call, allocation.number))


def placed_before(call: AgentCall) -> Place | None:
    """The directory that an earlier holder of the call chose; None when it chose none."""
    row = call.state.placed
    if row is None or not row.worktree_path:
        return None
    return Place(Path(row.worktree_path), call.executes, _kept(call, row.allocation or 0))


def _stay(desk: Desk, call: AgentCall, directories: Directories) -> Place:
    began = _last_placed(call.previous)
    if began is None or not began.worktree_path or not Path(began.worktree_path).is_dir():
        raise WorktreeError(f"the directory of the conversation that call {call.claim.call_id} continues is gone")
    path = Path(began.worktree_path)
    # What the directory holds now, so that a scheduler that takes the run over need not look into a busy one.
    worktree = call.executes
    tree = directories.snapshot(path) if worktree else None
    desk.append(
        NewCallRow(
            "placed",
            {"host": desk.host, "snapshot": tree, "path": str(path)},
            role=call.role.name,
            worktree_kind=CONTINUED,
            worktree_path=str(path),
            start_commit=began.start_commit,
            snapshot_digest=tree,
        )
    )
    return Place(path, worktree)


def _last_placed(rows: Sequence[CallRow]) -> CallRow | None:
    placed = [row for row in rows if row.event == "placed"]
    return placed[-1] if placed else None


def _retire(desk: Desk, call: AgentCall, directories: Directories) -> None:
    """Keep what the node's newest worktree holds."""
    keeping = Keeping(desk.append, desk.should_stop, _RETIRE_PATIENCE_SECONDS)
    directories.retire(call.node_rows, keeping)


def _kept(call: AgentCall, allocation: int) -> tuple[str, ...]:
    """The refs that keep the work of the node's worktrees before this one, oldest first."""
    run, node = call.claim.run_id, call.claim.node_id
    if not call.executes or node is None:
        return ()
    return tuple(retired_ref(run, node, number) for number in range(1, allocation))

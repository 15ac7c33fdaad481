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
from workers.worktrees.history import read_history
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
    executor = call.role.writes and call.claim.node_id is not None
    plan = directories.plan_executor if executor else directories.plan_reader
    allocation = plan(call.node_rows, call.head)
    tree = directories.fetch(allocation)
    detail = {**allocation.detail(), "host": desk.host, "snapshot": tree}
    desk.append(NewCallRow("placed", detail, role=call.role.name, snapshot_digest=tree, **allocation.columns()))
    kept = _retire(desk, call, directories) if executor else ()
    directories.make(allocation, desk.should_stop)
    return Place(allocation.path, executor, kept)


def _stay(desk: Desk, call: AgentCall, directories: Directories) -> Place:
    began = _last_placed(call.previous)
    if began is None or not began.worktree_path or not Path(began.worktree_path).is_dir():
        raise WorktreeError(f"the directory of the conversation that call {call.claim.call_id} continues is gone")
    path = Path(began.worktree_path)
    # What the directory holds now, so that a scheduler that takes the run over need not look into a busy one.
    worktree = call.role.writes and call.claim.node_id is not None
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


def _retire(desk: Desk, call: AgentCall, directories: Directories) -> tuple[str, ...]:
    """Keep what the node's newest worktree holds; the refs that keep earlier work of the node, oldest first."""
    keeping = Keeping(desk.append, desk.should_stop, _RETIRE_PATIENCE_SECONDS)
    directories.retire(call.node_rows, keeping)
    history = read_history(call.node_rows)
    run, node = call.claim.run_id, call.claim.node_id
    assert node is not None
    return tuple(retired_ref(run, node, number) for number in range(1, history.allocations + 1))

"""The directory of a call: chosen, announced as `placed`, then made or adopted.

    fresh       an executor call that starts a thread: a new worktree at the node's last commit
    restore     one whose node was given back to a boundary, or stands on another host: a new
                worktree that holds the boundary, announced by `worktree_preserved` and `worktree_restored`
    continued   a call that goes on where its thread, or its node's newest worktree, is
    call        what a reading call looks at

A restored worktree is compared with what was restored right before the first request
and again before the first turn: see `require_restored`.
Source: App Server document, "Working directories"; journal document, "The suffix".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.base.errors import GitError, WorktreeError
from shared.hub.refs import pending_ref, retired_ref
from shared.model.allocation import Allocation, AllocationKind
from shared.model.boundary import Boundary, boundary_of, without_withdrawn
from shared.model.rows import CallRow, NewCallRow
from workers.call.context import AgentCall
from workers.call.continuing import Conversation, Rung
from workers.call.desk import Desk
from workers.worktrees.allocator import lies_in
from workers.worktrees.directories import Directories
from workers.worktrees.history import NodeHistory, read_history
from workers.worktrees.keep import Keeping
from workers.worktrees.preserve import kept_refs

_RETIRE_PATIENCE_SECONDS = 60.0
_PRESERVE_PATIENCE_SECONDS = 1800.0


@dataclass(frozen=True)
class Place:
    """Where a call runs.

    Shape: `worktree` says that it is a node's, whose state the terminal row records;
    `kept` the refs that keep what earlier worktrees of the node held; `restored` the tree
    that it has to hold until the first turn; `own` that it goes with the call's end.
    """

    path: Path
    worktree: bool
    kept: tuple[str, ...] = ()
    restored: str | None = None
    own: bool = False


def find_boundary(call: AgentCall, host: str, state_dir: Path) -> Boundary | None:
    """What the call's node has to be given back to before the call; None when it stands as it should.

    Either the scheduler says so, or the conversation goes on while the node's newest worktree is on another host, or
    on one of this name whose state directory is another now. What an earlier holder of the call made is not looked at.
    """
    if not call.executes or call.boundary is not None:
        return call.boundary if call.executes else None
    own = {row.seq for row in call.rows}
    newest = next((row for row in reversed(read_history(call.node_rows).made) if row.seq not in own), None)
    if not call.continues or newest is None:
        return None
    if newest.host == host and lies_in(state_dir, newest.worktree_path):
        return None
    return boundary_of(call.node_rows, call.lineage, moved_from=newest.host)


def place_call(desk: Desk, call: AgentCall, directories: Directories, conversation: Conversation | None) -> Place:
    """Choose the call's directory, write `placed`, have the directory.

    Writes: `placed`; before it, for a boundary, `worktree_preserved` and `worktree_restored`; `push_requested`
    with the refs that keep what the node had before.

    Raises:
        WorktreeError: the directory of a continued thread is gone, or git refuses the new one.
        GitError: the hub stayed away.
    """
    if not call.executes:
        return _place_reader(desk, call, directories, conversation)
    boundary = find_boundary(call, desk.host, desk.worker.settings.state_dir)
    if boundary is not None:
        return _restore(desk, call, directories, boundary)
    if conversation is not None:
        return _stay(desk, call, directories, _where_it_stands(call, conversation))
    return _start_fresh(desk, call, directories)


def placed_before(call: AgentCall) -> Place | None:
    """The directory that an earlier holder of the call chose; None when it chose none."""
    row = call.state.placed
    if row is None or not row.worktree_path:
        return None
    restored = row.snapshot_digest if row.worktree_kind == AllocationKind.RESTORE else None
    kept = tuple(row.detail.get("kept") or ())
    return Place(Path(row.worktree_path), call.executes, kept, restored, bool(row.detail.get("own_directory")))


def make_again(call: AgentCall, directories: Directories, desk: Desk) -> None:
    """Make the directory of a held call that only reads again, at its recorded commit, since it goes on in it.

    One that went with the call's end is made also where one stands: a try that was cut may have left it half made.
    """
    row = call.state.placed
    if row is None or call.executes or not row.worktree_path:
        return
    if not row.detail.get("own_directory") and os.path.isdir(row.worktree_path):
        return
    start = row.start_commit or call.spec.base
    directories.make(Allocation(AllocationKind.CALL, 0, call.lineage, Path(row.worktree_path), start), desk.should_stop)


def _place(desk: Desk, call: AgentCall, tree: str | None, detail: dict[str, Any], columns: dict[str, Any]) -> None:
    detail = {**detail, "host": desk.host, "worker_id": desk.worker.incarnation.worker_id, "snapshot": tree}
    desk.append(NewCallRow("placed", detail, role=call.role.name, snapshot_digest=tree, **columns))


def _start_fresh(desk: Desk, call: AgentCall, directories: Directories) -> Place:
    allocation = directories.plan_executor(call.node_rows, call.head, call.lineage)
    kept = retired_before(call, read_history(call.node_rows), desk.host)
    tree = directories.fetch(allocation)
    _place(desk, call, tree, {**allocation.detail(), "kept": list(kept)}, allocation.columns())
    keeping = Keeping(desk.append, desk.should_stop, _RETIRE_PATIENCE_SECONDS)
    directories.retire(call.node_rows, keeping, desk.host)
    directories.make(allocation, desk.should_stop)
    return Place(allocation.path, True, kept)


def _restore(desk: Desk, call: AgentCall, directories: Directories, boundary: Boundary) -> Place:
    allocation = directories.plan_restore(call.node_rows, boundary, call.head)
    tree = directories.fetch_boundary(allocation, boundary)
    keeping = Keeping(desk.append, desk.should_stop, _PRESERVE_PATIENCE_SECONDS)
    preserved = directories.preserve(call.node_rows, boundary, desk.host, keeping)
    desk.append(preserved)
    directories.restore(allocation, tree, desk.should_stop)
    held = {"commit": boundary.commit, "tree": boundary.tree, "tree_of": boundary.tree_of}
    because = {"because": dict(boundary.because)}
    desk.append(
        NewCallRow(
            "worktree_restored",
            {**allocation.detail(), **held, **because, "snapshot": tree},
            snapshot_digest=tree,
            **allocation.columns(),
        )
    )
    kept = kept_refs(preserved)
    _place(desk, call, tree, {**allocation.detail(), **held, "kept": list(kept)}, allocation.columns())
    return Place(allocation.path, True, kept, tree)


def _stay(desk: Desk, call: AgentCall, directories: Directories, began: CallRow | None) -> Place:
    if began is None or not began.worktree_path or not Path(began.worktree_path).is_dir():
        raise WorktreeError(f"the directory of the conversation that call {call.claim.call_id} continues is gone")
    path = Path(began.worktree_path)
    # What the directory holds now, so that a scheduler that takes the run over need not look into a busy one.
    tree = directories.snapshot(path) if call.executes else None
    _place(desk, call, tree, {"path": str(path)}, _continued(path, began.start_commit))
    return Place(path, call.executes)


def _continued(path: Path, start_commit: str | None) -> dict[str, Any]:
    kind = AllocationKind.CONTINUED.value
    return {"worktree_kind": kind, "worktree_path": str(path), "start_commit": start_commit}


def _where_it_stands(call: AgentCall, conversation: Conversation) -> CallRow | None:
    """The row of the directory that the conversation goes on in.

    A thread's own is where it began. A fork, and a new thread in its place, go where their node stands now.
    """
    if conversation.rung is Rung.SAME_THREAD:
        return last_placed(call.previous)
    history = read_history(call.node_rows)
    stands = [row for row in history.made if row.worktree_path == history.worked_in]
    return stands[-1] if stands else last_placed(call.previous)


def _place_reader(desk: Desk, call: AgentCall, directories: Directories, conversation: Conversation | None) -> Place:
    began = last_placed(call.previous)
    if conversation is not None and conversation.rung is Rung.SAME_THREAD and call.head is None and began is not None:
        path = began.detail.get("thread_directory") or began.worktree_path
        if path and os.path.isdir(path):
            columns = _continued(Path(path), _thread_commit(began))
            _place(desk, call, None, {"path": path, "thread_directory": path}, columns)
            return Place(Path(path), False)
    head = call.head or (began.start_commit if began is not None else None)
    earlier = sum(row.event == "placed" and row.worktree_kind == AllocationKind.CALL for row in call.history)
    allocation = directories.plan_reader(call.node_rows, head, call.lineage, earlier)
    tree = directories.fetch(allocation)
    own = call.continues and call.head is not None
    detail: dict[str, Any] = {**allocation.detail(), "own_directory": str(allocation.path) if own else None}
    if not own:
        detail["thread_directory"] = str(allocation.path)
    elif began is not None and conversation is not None and conversation.rung is Rung.SAME_THREAD:
        detail["thread_directory"] = began.detail.get("thread_directory") or began.worktree_path
        detail["thread_commit"] = _thread_commit(began)
    _place(desk, call, tree, detail, allocation.columns())
    try:
        directories.make(allocation, desk.should_stop)
    except (WorktreeError, GitError):
        if own:
            directories.remove(allocation)
        raise
    return Place(allocation.path, False, own=own)


def _thread_commit(began: CallRow) -> str | None:
    """The commit at which the directory of a reader's thread stands: its last call may have looked at another one."""
    return began.detail.get("thread_commit") or began.start_commit


def last_placed(rows: Sequence[CallRow]) -> CallRow | None:
    """The newest `placed` row among a call's."""
    placed = [row for row in rows if row.event == "placed"]
    return placed[-1] if placed else None


def retired_before(call: AgentCall, history: NodeHistory, host: str) -> tuple[str, ...]:
    """The refs that keep the work of the node's worktrees before a fresh one, oldest first.

    A worktree is retired where a fresh one followed it on its host; one that stands on another
    host is kept by what its last call left on the hub. A fork's copied rows are of no host: there
    the hosts count that the other run had. What was announced for an earlier holder of this call, or
    for an attempt that was withdrawn, is no worktree that anybody worked in.
    """
    run, node = call.claim.run_id, call.claim.node_id
    assert node is not None
    worked_in = {row.seq for row in without_withdrawn(call.node_rows)} - {row.seq for row in call.rows}
    made = list({row.allocation: row for row in history.made if row.seq in worked_in}.values())
    fresh = AllocationKind.FRESH.value
    followers = [(row.worktree_kind, _stood_on(row)) for row in made[1:]] + [(fresh, (host, None))]
    refs = [
        retired_ref(run, node, row.allocation or 0)
        for row, follower in zip(made, followers, strict=False)
        if follower == (fresh, _stood_on(row))
    ]
    last = history.last_turn
    if last is not None and last.pending_tree is not None and history.worked_on not in (None, host):
        refs.append(pending_ref(run, last.call_id))
    return tuple(refs)


def _stood_on(row: CallRow) -> tuple[str | None, str | None]:
    """The host of a row that made a worktree; behind it, for a copied row, the host of the row it was copied from."""
    return row.host, (row.detail.get("copied_from") or {}).get("host")

"""A run's directories on this host, as an agent call uses them.

The steps of a call, in order: `plan_…` (pure), `fetch` (the mirror has what is needed
and says the tree), the caller's `placed` row, `retire` for what a node leaves behind,
`make`, the turn, `snapshot`, `keep_pending`, the caller's terminal row. Where a boundary
is restored: `plan_restore`, `fetch_boundary`, `preserve`, the caller's `worktree_preserved`
row, `restore`, the caller's `worktree_restored` and `placed` rows.
Source: App Server document, "Working directories".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from shared.base.errors import GitError, WorktreeError
from shared.base.log import get_logger
from shared.hub.refs import pending_ref, retired_ref, stray_ref
from shared.model.allocation import Allocation, AllocationKind
from shared.model.boundary import Boundary
from shared.model.rows import CallRow, NewCallRow
from shared.model.spec import RunSpec
from workers.worktrees.allocator import (
    call_directory,
    executor_directory,
    make_worktree,
    reader_directory,
    remove_worktree,
)
from workers.worktrees.commit import Stamp, make_commit, tree_of, with_trailers
from workers.worktrees.history import read_history, recorded_heads
from workers.worktrees.keep import Keeping, hold, keep
from workers.worktrees.mirror import Mirrors
from workers.worktrees.preserve import Preserving, old_worktree
from workers.worktrees.restore import lay_again, lay_over, require_snapshot
from workers.worktrees.setup import run_setup
from workers.worktrees.snapshot import settled_snapshot, snapshot


class Directories:
    """The directories of one call: `prepared` is its prepared row, which dates what is kept."""

    def __init__(self, mirrors: Mirrors, state_dir: Path, spec: RunSpec, prepared: CallRow) -> None:
        self._mirrors = mirrors
        self._git = mirrors.git
        self._state_dir = state_dir
        self._spec = spec
        self._prepared = prepared
        self._stamp = Stamp(spec.author_name, spec.author_email, prepared.written_at)

    def plan_executor(self, rows: Sequence[CallRow], head: str | None = None, lineage: int = 1) -> Allocation:
        """A new worktree for the call's node, at its last commit, else where its first one began, else head or base."""
        run, node = self._prepared.run_id, self._prepared.node_id
        assert node is not None
        history = read_history(rows)
        number = history.allocations + 1
        path = executor_directory(self._state_dir, run, node, number, lineage)
        return Allocation(AllocationKind.FRESH, number, lineage, path, history.start_commit(head, self._spec.base))

    def plan_restore(self, rows: Sequence[CallRow], boundary: Boundary, head: str | None = None) -> Allocation:
        """A new worktree for the call's node at a boundary: its commit, else where the node's first one began."""
        run, node = self._prepared.run_id, self._prepared.node_id
        assert node is not None
        history = read_history(rows)
        number = history.allocations + 1
        path = executor_directory(self._state_dir, run, node, number, boundary.lineage)
        start = boundary.commit or history.first_start or head or self._spec.base
        return Allocation(AllocationKind.RESTORE, number, boundary.lineage, path, start)

    def plan_reader(
        self, rows: Sequence[CallRow], head: str | None = None, lineage: int = 1, earlier: int = 0
    ) -> Allocation:
        """The call's own checkout, at the head it names, else where its node stands, else the run's base.

        Args:
            earlier: how many checkouts the call has had: each has a path of its own.
        """
        path = reader_directory(self._state_dir, self._prepared.run_id, self._prepared.call_id, earlier)
        start = head or read_history(rows).start_commit(None, self._spec.base)
        return Allocation(AllocationKind.CALL, 0, lineage, path, start)

    def fetch(self, allocation: Allocation) -> str:
        """Have the allocation's commit in the mirror; the tree a worktree of it begins with.

        Raises:
            GitError: the hub cannot be reached or has no such commit.
        """
        return tree_of(self._git, self._mirror(allocation.start_commit), allocation.start_commit)

    def fetch_boundary(self, allocation: Allocation, boundary: Boundary) -> str:
        """Have all of a boundary in the mirror; the tree that a worktree restored to it holds.

        Raises:
            GitError: the hub cannot be reached or lacks it.
        """
        tree = self.fetch(allocation)
        if boundary.tree is None:
            return tree
        ref = pending_ref(self._prepared.run_id, boundary.tree_of or self._prepared.call_id)
        self._mirrors.ensure_tree(self._spec.hub, self._prepared.run_id, boundary.tree, ref)
        return boundary.tree

    def preserve(self, rows: Sequence[CallRow], boundary: Boundary, host: str, keeping: Keeping) -> NewCallRow:
        """Keep what the boundary's worktree takes the place of. Returns `worktree_preserved`; see `Preserving`."""
        row = self._prepared
        old = old_worktree(read_history(rows).made, row.call_id, row.attempt, host)
        return Preserving(self._mirrors, self._spec, row, boundary, keeping).preserve(old)

    def restore(self, allocation: Allocation, tree: str, should_stop: Callable[[], object]) -> None:
        """Make the worktree, lay the tree over it and run `setup`, whose own changes the tree takes back.

        Raises:
            WorktreeError: git refuses it, `setup` failed, or the worktree does not hold the tree.
        """
        self._make(allocation)
        lay_over(self._git, allocation.path, tree)
        require_snapshot(self._git, allocation.path, tree)
        if self._spec.setup:
            self._set_up(allocation, should_stop)
            lay_again(self._git, allocation.path, tree)
            require_snapshot(self._git, allocation.path, tree)

    def make(self, allocation: Allocation, should_stop: Callable[[], object]) -> None:
        """Make the directory and run the run's `setup` command in it.

        Raises:
            WorktreeError: git refuses it, or `setup` failed.
        """
        self._make(allocation)
        self._set_up(allocation, should_stop)

    def _make(self, allocation: Allocation) -> None:
        make_worktree(self._git, self._mirror(allocation.start_commit), allocation.path, allocation.start_commit)

    def _set_up(self, allocation: Allocation, should_stop: Callable[[], object]) -> None:
        log = call_directory(self._state_dir, self._prepared.run_id, self._prepared.call_id) / "setup.log"
        run_setup(self._spec.setup, allocation.path, log, self._spec.setup_timeout_seconds, should_stop)

    def snapshot(self, worktree: Path, settled: bool = False) -> str:
        """The tree of what a worktree holds; `settled`: only once two in a row are equal.

        Raises:
            WorktreeError: it cannot be read whole, or keeps changing.
        """
        return settled_snapshot(self._git, worktree) if settled else snapshot(self._git, worktree)

    def state(self, worktree: Path) -> dict[str, str]:
        """Where a checkout stands and what it holds, to be compared. Raises as `snapshot` does."""
        tree = snapshot(self._git, worktree)
        return {"head": self._git.run(worktree, "rev-parse", "--verify", "HEAD").line, "tree": tree}

    def keep_pending(self, worktree: Path, tree: str, keeping: Keeping, earlier: str | None = None) -> str:
        """Keep the tree that an executor call left, on the hub, before a row names it.

        Args:
            earlier: the commit that the ref named at the call's end before this one, which stays reachable.

        Returns:
            The commit that carries the tree on the call's pending ref.

        Raises:
            GitError: the hub stayed away or refuses it.
        """
        ref, commit = self._pending(worktree, tree, earlier)
        keep(self._git, worktree, self._spec.hub, ref, commit, keeping, earlier)
        return commit

    def hold_pending(self, worktree: Path, tree: str, earlier: str | None = None) -> tuple[str, str]:
        """Keep the same commit in the mirror alone, since it did not come to the hub.

        Returns:
            The mirror's ref, and the commit.
        """
        ref, commit = self._pending(worktree, tree, earlier)
        return hold(self._git, worktree, ref, commit), commit

    def _pending(self, worktree: Path, tree: str, earlier: str | None) -> tuple[str, str]:
        if earlier is not None:
            self._mirror(earlier)
        commit = self._wrap(worktree, tree, f"Pending work of call {self._prepared.call_id}", earlier)
        return pending_ref(self._prepared.run_id, self._prepared.call_id), commit

    def keep_moved_head(self, rows: Sequence[CallRow], worktree: Path, keeping: Keeping) -> dict[str, str] | None:
        """Keep the commit at which an executor call left HEAD, when that is not where the rows have it.

        Args:
            rows: those of the node, with the call's own `placed` row.

        Returns:
            What the terminal row says of it (`executor_head_moved`): start, head, and the ref that keeps it.

        Raises:
            GitError: HEAD cannot be read, or the hub stayed away or refuses it.
        """
        moved = self.find_moved_head(rows, worktree)
        if moved is not None:
            keep(self._git, worktree, self._spec.hub, moved["ref"], moved["head"], keeping)
        return moved

    def find_moved_head(self, rows: Sequence[CallRow], worktree: Path) -> dict[str, str] | None:
        """The same, and nothing is kept: the call's pending commit stands on that head."""
        start, undone = recorded_heads(rows, str(worktree))
        head = self._git.run(worktree, "rev-parse", "--verify", "HEAD").line
        if start is None or head == start or head in undone:
            return None
        return {"start": start, "head": head, "ref": stray_ref(self._prepared.run_id, self._prepared.call_id)}

    def retire(self, rows: Sequence[CallRow], keeping: Keeping, host: str | None = None) -> str | None:
        """Keep what stands in the node's newest worktree, which a new one is about to follow; see `old_worktree`.

        The directory stays: an earlier conversation may still go on in it. One that cannot
        be snapshotted stays as well, and must not keep its node from a fresh start.

        Args:
            host: where this is; a worktree of another host is not looked at, whatever stands at its path here.

        Returns:
            The ref, or None when there is no earlier worktree on this host or none that can be read.
        """
        own = self._prepared
        placed = old_worktree(read_history(rows).made, own.call_id, own.attempt, host)
        if placed is None or placed.node_id is None:
            return None
        worktree = Path(placed.worktree_path or "")
        try:
            commit = self._wrap(worktree, self.snapshot(worktree), f"Retired worktree {placed.allocation}")
        except (WorktreeError, GitError) as error:
            get_logger().warning("retire_failed", run=placed.run_id, call=self._prepared.call_id, error=str(error))
            return None
        ref = retired_ref(placed.run_id, placed.node_id, placed.allocation or 0)
        keep(self._git, worktree, self._spec.hub, ref, commit, keeping)
        return ref

    def remove(self, allocation: Allocation) -> None:
        """Remove a directory that only this call used."""
        remove_worktree(self._git, self._mirrors.path_of(self._spec.hub), allocation.path)

    def _mirror(self, commit: str) -> Path:
        return self._mirrors.ensure(self._spec.hub, self._prepared.run_id, [commit])

    def _wrap(self, worktree: Path, tree: str, subject: str, earlier: str | None = None) -> str:
        row = self._prepared
        head = self._git.run(worktree, "rev-parse", "--verify", "HEAD").line
        message = with_trailers(subject, row.run_id, row.call_id, row.request_id)
        parents = [head, earlier] if earlier is not None else [head]
        return make_commit(self._git, worktree, tree, parents, message, self._stamp)

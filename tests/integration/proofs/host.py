"""A node on a real hub and a real host: its rows are written as workers write them, and git is collected in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shared.base.ids import call_id, request_id
from shared.model.proof import Answer
from shared.model.rows import CallRow, NewCallRow
from tests.integration.ops.host import OpHost
from tests.integration.worktrees.place import RUN
from tests.repositories import git, write_files
from workers.ops.commit import Commit
from workers.proofs.answer import prove
from workers.worktrees.allocator import executor_directory, make_worktree
from workers.worktrees.directories import Directories
from workers.worktrees.mirror import Mirrors

HOST = "h1"


class ProofHost(OpHost):
    """Calls are named by their position. `threads` is what the App Server says of threads."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self.threads: dict[str, str] = {}
        self.collected = 0

    def row(self, position: int, event: str, kind: str = "agent", node: str | None = "n", **columns: Any) -> CallRow:
        self.collect()
        return super().row(position, event, kind, node, **{"host": HOST, **columns})

    def collect(self) -> None:
        """Everything that no ref and no HEAD names is gone, in the mirror and on the hub."""
        for repository in (self.mirror, self.hub):
            if repository.is_dir():
                git(repository, "gc", "--quiet", "--prune=now")
                self.collected += 1

    def prove(self, host: str = HOST, rows: Sequence[CallRow] | None = None) -> Answer:
        """What this host answers."""
        known = self.rows if rows is None else rows

        def load(after: int) -> list[CallRow]:
            return [row for row in known if row.seq > after]

        return prove(self.mirrors, str(self.hub), RUN, host, load, self.threads.get)

    def unproven(self) -> dict[int, str | None]:
        """Position -> reason, of what is not proven."""
        return {self.position(call): verdict.reason for call, verdict in self.prove().verdicts.items()}

    def position(self, call: str) -> int:
        return next(row.position for row in self.rows if row.call_id == call)

    def build(self, position: int, files: Mapping[str, str], node: str = "n") -> Path:
        """An executor call in a fresh worktree."""
        worktree = self.begin(position, node)
        self.end(position, worktree, files, node)
        return worktree

    def begin(self, position: int, node: str = "n") -> Path:
        """An executor call that has its fresh worktree and did nothing yet."""
        own = self.own(position, node)
        of_node = [row for row in self.rows if row.node_id == node]
        allocation = own.plan_executor(of_node)
        tree = own.fetch(allocation)
        own.retire(of_node, self.keeping)
        self.store(
            position,
            NewCallRow("placed", allocation.detail(), snapshot_digest=tree, **allocation.columns()),
            node=node,
        )
        own.make(allocation, lambda: None)
        return allocation.path

    def fix(self, position: int, worktree: Path, files: Mapping[str, str], node: str = "n") -> None:
        """A further call of the conversation."""
        self.go_on(position, worktree, node)
        self.end(position, worktree, files, node)

    def go_on(self, position: int, worktree: Path, node: str = "n") -> None:
        """A further call of the conversation that did nothing yet."""
        tree = self.own(position, node).snapshot(worktree)
        columns = {"worktree_kind": "continued", "worktree_path": str(worktree), "snapshot_digest": tree}
        self.row(position, "placed", node=node, **columns)

    def end(self, position: int, worktree: Path, files: Mapping[str, str], node: str = "n") -> CallRow:
        """An executor call writes its files and completes."""
        write_files(worktree, files)
        return self.complete(position, worktree, node)

    def complete(
        self,
        position: int,
        worktree: Path,
        node: str = "n",
        event: str = "completed",
        reason: str | None = None,
        **columns: Any,
    ) -> CallRow:
        """The terminal row of an executor call, with what stands in its worktree."""
        prepared = next(row for row in reversed(self.rows) if row.event == "prepared" and row.position == position)
        own = Directories(self.mirrors, self.state_dir, self.spec, prepared)
        tree = own.snapshot(worktree, settled=True)
        moved = own.keep_moved_head(self.rows, worktree, self.keeping)
        own.keep_pending(worktree, tree, self.keeping)
        column = "pending_tree" if event == "completed" else "held_tree"
        detail: dict[str, Any] = {"turns": 1, "reason": reason}
        if moved is not None:
            detail["executor_head_moved"] = moved
        return self.row(position, event, node=node, detail=detail, **{column: tree}, **columns)

    def commit_elsewhere(self, position: int, root: Path, node: str = "n") -> None:
        """A `commit` of the node on another host, from the hub's objects: its terminal row is stored."""
        other = replace(
            self.context(position, "commit", {"node": node, "message": "a change"}, node=node),
            host="h2", state_dir=root, mirrors=Mirrors(root, self.git),
        )  # fmt: skip
        result = Commit().run(other)
        self.row(position, "completed", "commit", node, detail=result.facts, host="h2", **result.columns)

    def supersede(self, position: int, kind: str = "agent", node: str = "n") -> None:
        """A resume ends what an earlier process did."""
        self.row(position, "superseded", kind, node, detail={"reason": "superseded_by_resume", "lineage": 2})

    def restore(self, position: int, number: int, commit: str, tree: str | None, node: str = "n") -> Path:
        """The next attempt of a call, in a worktree restored to a commit with a tree over it."""
        own = self.own(position, node, attempt=1)
        path = executor_directory(self.state_dir, RUN, node, number, 2)
        make_worktree(self.git, self.mirror, path, commit)
        if tree is not None:
            git(path, "read-tree", "-m", "-u", "HEAD", tree)
            git(path, "reset", "-q")
        snapshot = own.snapshot(path)
        assert tree in (None, snapshot)
        columns = {"worktree_kind": "restore", "worktree_path": str(path), "start_commit": commit, "allocation": number}
        self.row(position, "placed", node=node, attempt=1, snapshot_digest=snapshot, **columns)
        return path

    def own(self, position: int, node: str = "n", attempt: int = 0) -> Directories:
        """The directories of a call that is prepared now."""
        call = call_id(RUN, "main", position)
        request = request_id(RUN, call, attempt)
        prepared = self.row(position, "prepared", node=node, attempt=attempt, request_id=request)
        return Directories(self.mirrors, self.state_dir, self.spec, prepared)

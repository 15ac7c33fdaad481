"""What an op is given, on a real hub and a real worktree, without a database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.base.canonical import digest_bytes
from shared.base.ids import call_id, request_id
from shared.journal.append import Claim
from shared.model.rows import CallRow, NewCallRow
from tests.integration.worktrees.place import AT, RUN, Place
from tests.repositories import write_files
from workers.ops.commit import Commit
from workers.ops.integrate import Integrate
from workers.ops.op import OpContext, OpResult
from workers.ops.verify import Verify
from workers.worktrees.directories import Directories


class OpHost(Place):
    """A place whose ops can be run; `announced` and `noted` are the rows they wrote, `logs` what verify kept."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self.announced: list[NewCallRow] = []
        self.noted: list[NewCallRow] = []
        self.logs: dict[str, bytes] = {}
        self.stop: str | None = None
        self.leased = True

    def context(self, position: int, kind: str, arguments: Any, node: str | None = None, fence: int = 1) -> OpContext:
        call = call_id(RUN, "main", position)
        claim = Claim(
            call_id=call,
            request_id=request_id(RUN, call),
            run_id=RUN,
            node_id=node,
            kind=kind,
            effect="op",
            path="main",
            position=position,
            attempt=0,
            fence=fence,
            grant_id="g",
            sent=False,
            sent_host=None,
            crashes=0,
            deadline_seconds=None,
            rows_written=0,
        )
        return OpContext(
            claim=claim,
            spec=self.spec,
            arguments=arguments,
            append=lambda *rows: self.announced.extend(rows),
            note=lambda *rows: self.noted.extend(rows),
            node_rows=lambda: [row for row in self.rows if row.node_id == node],
            should_stop=lambda: self.stop,
            may_send=lambda: self.leased,
            host="h1",
            state_dir=self.state_dir,
            mirrors=self.mirrors,
            prepared_at=AT,
        )

    def keep_log(self, log: bytes) -> str:
        self.logs[digest_bytes(log)] = log
        return digest_bytes(log)

    def run_op(self, op: Any, position: int, arguments: Mapping[str, Any], **known: Any) -> OpResult:
        """Run an op as a worker would, without its terminal row."""
        result: OpResult = op.run(self.context(position, op.name, op.parse(arguments), **known))
        return result

    def commit(self, position: int, node: str = "n", message: str = "a change", **arguments: Any) -> OpResult:
        """Run `commit`; its terminal row is stored."""
        result = self.run_op(Commit(), position, {"node": node, "message": message, **arguments}, node=node)
        self.store(position, NewCallRow("completed", result.facts, **result.columns), "commit", node)
        return result

    def run_op_again(self, position: int, node: str = "n", message: str = "a change") -> OpResult:
        """Run `commit` for a position whose first attempt was ended, under the request id of the second."""
        context = self.context(position, "commit", {"node": node, "message": message}, node=node)
        context.claim.request_id = request_id(RUN, context.claim.call_id, 1)
        return Commit().run(context)

    def verify(self, position: int, head: str, command: str, **arguments: Any) -> dict[str, Any]:
        """Run `verify`; its output."""
        return dict(
            self.run_op(Verify(self.keep_log), position, {"head": head, "command": command, **arguments}).output
        )

    def integrate(self, position: int, heads: Mapping[str, str], fence: int = 1, **arguments: Any) -> dict[str, Any]:
        """Run `integrate`; its output."""
        return dict(self.run_op(Integrate(), position, {"heads": heads, **arguments}, fence=fence).output)

    def turn(self, position: int, files: Mapping[str, str], node: str = "n") -> Path:
        """An executor call that wrote `files` and completed: its rows are stored, its tree is kept."""
        own = Directories(self.mirrors, self.state_dir, self.spec, self.row(position, "prepared", node=node))
        allocation = own.plan_executor([row for row in self.rows if row.node_id == node])
        own.fetch(allocation)
        self.store(position, NewCallRow("placed", allocation.detail(), **allocation.columns()), node=node)
        own.make(allocation, lambda: None)
        self.edit(position, own, allocation.path, files, node)
        return allocation.path

    def next_turn(self, position: int, worktree: Path, files: Mapping[str, str], node: str = "n") -> CallRow:
        """A further call of the same conversation: in the directory that is there."""
        own = Directories(self.mirrors, self.state_dir, self.spec, self.row(position, "prepared", node=node))
        return self.edit(position, own, worktree, files, node)

    def edit(self, position: int, own: Directories, worktree: Path, files: Mapping[str, str], node: str) -> CallRow:
        write_files(worktree, files)
        tree = own.snapshot(worktree, settled=True)
        own.keep_pending(worktree, tree, self.keeping)
        return self.row(position, "completed", node=node, role="executor", pending_tree=tree)

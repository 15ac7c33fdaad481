"""A run of many recorded positions on one host, with real worktrees: what a resume of it has to walk and to prove.

The engine records it, the rows of its calls are appended here as a worker would append
them, and every node shares the commits of one history: what a resume does with a
node does not depend on whose they are.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import secrets
import threading
import uuid
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from scheduler.changes import Changes
from scheduler.flow.services import RunServices
from scheduler.run import drive_run
from shared.hub.git import Git
from shared.journal import claims, hosts, read, run_leases
from shared.journal.append import Claim, JournalWriter
from shared.journal.outbox import Publication
from shared.model.ops import NOOP, register
from shared.model.roles import Role
from shared.model.rows import CallRow, NewCallRow
from shared.model.spec import FORMAT
from tests.farm import Farm
from tests.journal_farm import make_identity
from tests.repositories import commit_files, git, make_bare_hub
from workers.state_dir import StateDirectory
from workers.worktrees.allocator import executor_directory, make_worktree
from workers.worktrees.mirror import Mirrors

HOST = "h1"
ROUNDS = 8
_THREADS = 8
_SCHEMA = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}

# 25 positions a lane; the first lanes have one more call, whose work is not committed yet.
FLOW = f"""
import time

SCHEMA = {_SCHEMA!r}

async def main(flow, args):
    async def lane(number):
        node, build = f"n{{number}}", None
        for _ in range({ROUNDS}):
            if build is None:
                build = await flow.agent("Build it.", role="executor", node=node, schema=SCHEMA)
            else:
                build = await build.call("Go on.", schema=SCHEMA)
            head = (await flow.crw.commit(node=node, message="a part")).require()
            (await flow.crw.verify(node=node, head=head["commit"], command="true")).require()
        (await flow.crw.noop(value=number)).require()
        if number < args["open"]:
            (await build.call("Go on.", schema=SCHEMA)).require()
    await flow.parallel({{str(n): lane(n) for n in range(args["lanes"])}})
    with open(args["mark"], "a") as marks:
        print(time.perf_counter(), file=marks)
    await flow.crw.noop(seconds=3600)
"""


class Recorded:
    """The run and its host's directories. Shape: `mark` the file that the script adds to when it is past its record."""

    def __init__(self, farm: Farm, lanes: int, unsettled: int) -> None:
        self.farm = farm
        self.positions = lanes * (3 * ROUNDS + 1) + unsettled
        self.mark = farm.directory / "marks"
        hub = make_bare_hub(farm.directory / "hub.git")
        self.base = git(hub, "rev-parse", "main")
        self._make_history(hub)
        self.run_id = farm.submit(
            FLOW,
            {"lanes": lanes, "open": unsettled, "mark": str(self.mark)},
            hub=str(hub),
            base=self.base,
            roles={"executor": Role("executor", "m", "low", "workspace-write", "")},
        )
        self.state_dir = farm.directory / f"state-{HOST}"
        self._make_worktrees(hub, lanes, unsettled)
        register(NOOP)
        asyncio.run(self._record())

    def _make_history(self, hub: Path) -> None:
        work = hub.with_name("history")
        git(hub.parent, "clone", "-q", str(hub), str(work))
        self._commits = [self.base]
        self._commits += [commit_files(work, {"part.txt": f"{n}\n"}, f"part {n}") for n in range(1, ROUNDS + 1)]
        self._trees = [git(work, "rev-parse", f"{commit}^{{tree}}") for commit in self._commits]
        commit_files(work, {"part.txt": "open\n"}, "open")
        self._open_tree = git(work, "rev-parse", "HEAD^{tree}")
        git(work, "push", "-q", "origin", "HEAD:refs/heads/history")

    def _make_worktrees(self, hub: Path, lanes: int, unsettled: int) -> None:
        tools = Git(60)
        mirror = Mirrors(self.state_dir, tools).ensure(str(hub), self.run_id)
        for number in range(lanes):
            path = self._worktree(f"n{number}")
            make_worktree(tools, mirror, path, self._commits[-1])
            if number < unsettled:
                (path / "part.txt").write_text("open\n")

    def _worktree(self, node: str) -> Path:
        return executor_directory(self.state_dir, self.run_id, node, 1, 1)

    # -- recording -------------------------------------------------------------------------------------

    async def _record(self) -> None:
        with closing(StateDirectory(self.state_dir, HOST, 0)) as state:
            worker = make_identity(HOST, host_id=state.host_id, home_id=state.home_id, slots=64, lease_seconds=600.0)
        hosts.register(self.farm.database, worker)
        published: queue.SimpleQueue[Publication | None] = queue.SimpleQueue()
        changes = Changes(asyncio.get_running_loop())

        def work(writer: JournalWriter) -> None:
            while (publication := published.get()) is not None:
                self._answer(writer, worker.worker_id, publication)
                changes.hear(self.run_id)

        def publish(publications: Sequence[Publication]) -> None:
            for publication in publications:
                published.put(publication)

        with (
            closing(JournalWriter(self.farm.database)) as writer,
            closing(JournalWriter(self.farm.database, host=HOST)) as hand,
        ):
            threads = [threading.Thread(target=work, args=(hand,), daemon=True) for _ in range(_THREADS)]
            for thread in threads:
                thread.start()
            services = RunServices(self.farm.database, writer, publish, lambda run_id: None, changes)
            taken = self.take()
            driving = asyncio.create_task(drive_run(taken, services))
            while not self.mark.exists():
                assert not driving.done(), driving
                await asyncio.sleep(0.1)
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
            for _ in threads:
                published.put(None)
            await asyncio.to_thread(lambda: [thread.join() for thread in threads])
        hosts.stop_worker(self.farm.database, worker.worker_id)
        run_leases.let_go(self.farm.database, taken.lease, broke=False)

    def take(self) -> run_leases.TakenRun:
        """The run, under a scheduler of its own."""
        scheduler_id = str(uuid.uuid4())
        machine = {"machine": "bench", "pid": os.getpid(), "version": FORMAT}
        hosts.register_scheduler(self.farm.database, scheduler_id, 600, **machine)
        [taken] = run_leases.take(self.farm.database, scheduler_id, 1)
        assert taken.run_id == self.run_id
        return taken

    def _answer(self, writer: JournalWriter, worker: str, publication: Publication) -> None:
        call, request = publication.call_id, publication.request_id
        prepared = read.load_call(self.farm.database, call)[-1]
        if prepared.path == "main":
            return
        claim = claims.claim(self.farm.database, worker, call, request, f"g-{secrets.token_hex(6)}")
        if isinstance(claim, Claim):
            writer.append(claim, *self._rows(prepared))

    def _rows(self, prepared: CallRow) -> list[NewCallRow]:
        number = (prepared.position + 2) // 3
        if prepared.kind == "agent":
            return self._agent_rows(prepared, number)
        facts: dict[str, Any] = {}
        output: dict[str, Any] = {"value": prepared.detail["arguments"].get("value")}
        columns: dict[str, Any] = {}
        if prepared.kind == "commit":
            commit, parent = self._commits[number], self._commits[number - 1]
            facts = {
                "tree": self._trees[number],
                "parent": parent,
                "worktree": str(self._worktree(prepared.node_id or "")),
            }
            output = {"commit": commit, "tree": facts["tree"], "parent": parent, "changed": True, "paths": ["part.txt"]}
            columns = {"commit_sha": commit}
        elif prepared.kind == "verify":
            facts = {"ran": True, **prepared.detail["arguments"]}
            output = {"passed": True, "ran": True, "exit_status": 0, "summary": "`true` passed after 0.0 s"}
        return [NewCallRow("completed", facts, result=json.dumps(output).encode(), **columns)]

    def _agent_rows(self, prepared: CallRow, number: int) -> list[NewCallRow]:
        worktree = str(self._worktree(prepared.node_id or ""))
        call, thread, turn = prepared.call_id, f"thread-{prepared.node_id}", f"turn-{prepared.call_id}"
        known = {"thread_id": thread, "role": "executor"}
        first = prepared.position == 1
        tree = self._trees[number] if number <= ROUNDS else self._open_tree
        placed = {
            "worktree_kind": "fresh" if first else "continued",
            "worktree_path": worktree,
            "start_commit": self.base,
            "allocation": 1 if first else None,
            "snapshot_digest": self._trees[number - 1],
        }
        made = [NewCallRow("thread_requested"), NewCallRow("thread_started", {"model": "m", "effort": "low"}, **known)]
        turns: dict[str, Any] = {"operation": f"{call}/t1", **known}
        return [
            NewCallRow("placed", {"host": HOST, "snapshot": placed["snapshot_digest"]}, role="executor", **placed),
            *(made if first else ()),
            NewCallRow("turn_requested", {"repair": False}, **turns),
            NewCallRow("turn_started", turn_id=turn, **turns),
            NewCallRow("turn_ended", {"status": "completed"}, turn_id=turn, tokens=1000, **turns),
            NewCallRow("push_requested", {"ref": f"refs/crw/flow/{self.run_id}/pending/{call}"}),
            NewCallRow(
                "completed",
                {"turns": 1, "requested": ["m", "low"], "configured": ["m", "low"], "repair_used": False},
                turn_id=turn, tokens=1000, worktree_path=worktree, pending_tree=tree, snapshot_digest=tree,
                result=b'{"summary": "done"}', **known,
            ),
        ]  # fmt: skip

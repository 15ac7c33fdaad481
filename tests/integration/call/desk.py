"""A run with one worker in this process, on the fake host: calls are opened and claimed without any message."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.embedded import Valkey
from shared.base.errors import UsageError
from shared.base.ids import request_id
from shared.base.settings import CodexSettings, Settings
from shared.journal import read
from shared.journal.append import Claim, EndedCall, JournalWriter, OpenCall, RunRows
from shared.journal.database import Database
from shared.journal.replay import read_call_result
from shared.model.boundary import HeldTree, boundary_of
from shared.model.outcome import Ended
from shared.model.roles import Role, default_sandbox
from shared.model.rows import CallRow, NewCallRow
from shared.model.unpushed import tree_at_hold
from tests.fakehost.install import install
from tests.integration.call.mortal import Died, MortalWriter, no_connection
from tests.journal_farm import Farm
from tests.repositories import git, make_bare_hub
from tests.waiting import wait_until
from workers.app import Application
from workers.call.run import run_agent_call
from workers.tasks import Caller
from workers.worker import Worker

SCHEMA = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}
DONE = {"out": [{"msg": '{"summary": "done"}', "phase": "final_answer"}]}


def prompt(*steps: dict[str, Any], text: str = "Do it.") -> str:
    """A prompt that tells the fake's model what to do."""
    return f"{text}\n[[steps:{json.dumps(list(steps))}]]"


class OneWorker:
    """Opens calls of one run and works on them with the real code of a worker."""

    def __init__(
        self, database_url: str, valkey: Valkey, directory: Path, codex: CodexSettings | None = None, **spec: Any
    ) -> None:
        """Make the run and its worker: on the fake host unless `codex` names another."""
        self.fake = install(directory)
        self.hub = make_bare_hub(directory / "hub.git")
        self.settings = Settings(
            database_url=database_url,
            broker_url=valkey.url,
            state_dir=directory / "state",
            host_name="h1",
            min_free_bytes=0,
            codex=codex
            or CodexSettings(
                bin=str(self.fake.program),
                config={"model_provider": "scripted"},
                models=["gpt-test"],
                request_timeout_seconds=3,
            ),
        )
        self.application = Application(self.settings)
        self.database = Database(database_url, process="test")
        self._writer = JournalWriter(self.database)
        self.farm = Farm(self.database, self._writer)
        roles = {
            name: Role(name, "gpt-test", "low", default_sandbox(name), "")
            for name in ("executor", "reviewer", "architect")
        }
        self.base = git(self.hub, "rev-parse", "main")
        self.lease = self.farm.new_run(hub=str(self.hub), base=self.base, roles=roles, **spec)
        self.run_id = self.lease.run_id

    @property
    def worker(self) -> Worker:
        return self.application.worker

    def die(self) -> None:
        """The worker and its App Server are gone at once, as by SIGKILL: nothing more is written or sent."""
        server = self.worker.appserver._server
        if server is not None and server.alive:
            os.kill(server.pid, signal.SIGKILL)
            assert server.gone.wait(10)
        # A dead worker's successor would end these by the dead one's pid, which here is still alive.
        self.application.state._end_heirs(os.getpid())
        self.worker.writer.close()
        self.worker.database.close()
        self.application.state.close()

    def reincarnate(self, **changes: Any) -> None:
        """The host's next worker, on the same state directory."""
        settings = self.settings.model_copy(update=changes)

        def take_over() -> Application | None:
            try:
                return Application(settings)
            except UsageError:
                return None  # what was killed with the last one still has the lock

        application = wait_until(take_over, 10, "the state directory's lock to be free")
        assert application is not None
        self.application = application

    def kill_all(self) -> None:
        """The worker and its server die in the middle of whatever another thread of the test has them do."""
        self.worker.writer = MortalWriter(self.worker.writer, "now:")  # type: ignore[assignment]
        self.worker.appserver.connection = no_connection  # type: ignore[method-assign]
        self.die()

    def kill_server(self) -> None:
        """SIGKILL to the App Server alone."""
        os.kill(self.worker.appserver.connection()._server.pid, signal.SIGKILL)

    def work_until_death(self, call: OpenCall, at: str) -> None:
        """Work on a call; the worker dies `before:<row>` or `after:<row>`, with `#2` at the row's second time."""
        mortal = MortalWriter(self.worker.writer, at)
        self.worker.writer = mortal  # type: ignore[assignment]
        try:
            self.work(call)
        except Died:
            self.die()
        else:
            raise AssertionError(f"the call ended without passing {at}: {self.words(call)}")

    def close(self) -> None:
        self.worker.appserver.stop()
        self.worker.writer.close()
        self.worker.database.close()
        self.application.state.close()
        self._writer.close()
        self.database.close()

    def open(self, text: str, *, role: str = "executor", node: str | None = "n1", **detail: Any) -> OpenCall:
        """Open an agent call."""
        prepared = {
            "prompt": text,
            "schema": SCHEMA,
            "role": role,
            "pair": ["gpt-test", "low"],
            "node": node,
            "head": None,
            "label": None,
            "context": {"kind": "fresh"},
            "input_digest": "d",
            "prompt_digest": "d",
            "options": {},
            **detail,
        }
        return self.farm.open(
            self.lease,
            node=node,
            kind="agent",
            effect="executor" if role == "executor" else "reader",
            prepared=NewCallRow("prepared", prepared, role=role),
        )

    def open_again(self, call: OpenCall, **detail: Any) -> OpenCall:
        """The call's next attempt, as a suffix opens it: its last one is superseded first."""
        last = self.rows(call)[-1]
        if last.event != "superseded" and read_call_result(self.rows(call)) is not None:
            row = NewCallRow("superseded", {"reason": "superseded_by_resume", "lineage": 1, "condition": "a"})
            place = (call.path, call.position, call.kind, call.node_id)
            ended = EndedCall(call.call_id, *place, last.request_id, last.attempt, row)
            self._writer.submit(RunRows(self.lease, ended=(ended,))).result()
        request = request_id(self.run_id, call.call_id, last.attempt + 1)
        asked = {**call.prepared.detail, "lineage": 1, **detail}
        again = replace(
            call, attempt=last.attempt + 1, request_id=request, prepared=replace(call.prepared, detail=asked)
        )
        return self._open(again)

    def clear_hold(self, call: OpenCall, **detail: Any) -> OpenCall:
        """The held call goes on in place, as a resume lets it."""
        last = self.rows(call)[-1]
        assert last.event == "held", last.event
        told = {
            "lineage": 1,
            "reason": last.detail["reason"],
            "input_state": last.input_state,
            "p_held": tree_at_hold(last),
            "of_attempt": last.attempt,
            **detail,
        }
        cleared = NewCallRow("hold_cleared", told, role=call.prepared.role, input_state=told["input_state"])
        return self._open(replace(call, attempt=last.attempt + 1, prepared=cleared))

    def _open(self, call: OpenCall) -> OpenCall:
        self._writer.submit(RunRows(self.lease, opens=(call,))).result()
        return call

    def boundary(self, *held: HeldTree, node: str = "n1") -> dict[str, Any]:
        """What the scheduler would have the node restored to."""
        left = boundary_of(read.load_node(self.database, self.run_id, node), 1, condition="c")
        return replace(left, held=held).to_json()

    def goes_on(self, call: OpenCall, **context: Any) -> dict[str, Any]:
        """The context of a call that continues this one's conversation."""
        ended = self.ended(call)
        assert ended is not None
        meta = ended.meta
        return {
            "kind": "continue", "call": call.call_id, "thread": meta.thread_id, "through_turn": meta.turn_id,
            "host": meta.host, **context,
        }  # fmt: skip

    def move(self, host: str) -> None:
        """The next worker is another host's, with a state directory and a home of its own."""
        self.worker.appserver.stop()
        self.worker.writer.close()
        self.worker.database.close()
        self.application.state.close()
        state = self.settings.state_dir.parent / f"state-{host}"
        self.application = Application(self.settings.model_copy(update={"host_name": host, "state_dir": state}))

    def work(self, call: OpenCall) -> Ended | None:
        """Claim a call and work on it as a message would make the worker do; how it ended."""
        Caller(self.worker, _no_ops, run_agent_call).take(call.call_id, call.request_id)
        return self.ended(call)

    def run(self, text: str, **options: Any) -> Ended:
        """Open a call and work on it to its end."""
        ended = self.work(self.open(text, **options))
        assert ended is not None
        return ended

    def ended(self, call: OpenCall) -> Ended | None:
        return read_call_result(self.rows(call))

    def rows(self, call: OpenCall) -> list[CallRow]:
        return read.load_call(self.database, call.call_id)

    def words(self, call: OpenCall) -> list[str]:
        return [row.event for row in self.rows(call)]

    def sent(self, method: str) -> int:
        """How often the fake host was asked for this."""
        return len(self.fake.requests(method))


def _no_ops(claim: Claim, _worker: Worker) -> None:
    raise AssertionError(f"{claim.kind} is no agent call")

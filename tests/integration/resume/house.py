"""A farm in one process: the engine of a scheduler and the code of a worker on the fake host, with no broker between.

Calls that are published are taken in threads at once; a thread does the host's duties:
it answers questions and hears of stops. A test can silence it, and act at any row that
the worker writes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from deploy.embedded import Valkey
from scheduler.changes import Changes
from scheduler.flow.services import RunServices
from scheduler.resume.proving import Provers
from scheduler.run import drive_run
from shared.base.settings import CodexSettings, Settings
from shared.journal import claims, runs
from shared.journal.append import Claim
from shared.journal.database import Database
from shared.journal.outbox import Publication
from shared.journal.questions import PROOFS, RECOVER
from shared.model.rows import NewCallRow
from tests.fakehost.install import install
from tests.integration.engine.hands import Field
from tests.repositories import make_bare_hub
from workers.app import Application
from workers.call.recover import recover_call
from workers.call.run import run_agent_call
from workers.duties import StopFlags
from workers.ops.run import run_op
from workers.proofs.answer import answer_proofs
from workers.questions import Questions
from workers.tasks import Caller
from workers.worker import Worker

_LOOK_SECONDS = 0.05
_LONGEST_DRIVE_SECONDS = 120


class House(Field):
    """Shape: `silent` while it is set the host answers nothing; `at_row` is called with each row once it is written."""

    def __init__(self, database_url: str, valkey: Valkey, directory: Path) -> None:
        self.fake = install(directory)
        self.hub = make_bare_hub(directory / "hub.git")
        codex = CodexSettings(
            bin=str(self.fake.program), config={"model_provider": "scripted"}, models=["m1"], request_timeout_seconds=5
        )
        self.application = Application(
            Settings(
                database_url=database_url, broker_url=valkey.url, state_dir=directory / "host", host_name="h1",
                min_free_bytes=0, lease_seconds=600, codex=codex,
            )
        )  # fmt: skip
        super().__init__(Database(database_url, process="test", pool_size=8))
        self.silent = threading.Event()
        self.at_row: Callable[[NewCallRow], None] = lambda row: None
        worker = self.application.worker
        worker.writer = _Told(worker.writer, self)  # type: ignore[assignment]
        self._caller = Caller(worker, run_op, run_agent_call)
        self._slots = ThreadPoolExecutor(8, thread_name_prefix="slot")
        self._closing = threading.Event()
        self._duties = threading.Thread(target=self._do_duties, daemon=True)
        self._duties.start()

    def new_worker(self, labels: Sequence[str]) -> str:
        return self.application.worker.incarnation.worker_id

    @property
    def work(self) -> Worker:
        return self.application.worker

    def close(self) -> None:
        self._closing.set()
        self._duties.join(30)
        self._slots.shutdown()
        super().close()
        self.work.appserver.stop()
        self.work.writer.close()
        self.work.wakeups.close()
        self.work.database.close()
        self.application.state.close()
        self.database.close()

    async def driving(
        self, taken: runs.TakenRun, answer: Any = None, during: Callable[[Any], Any] | None = None
    ) -> None:
        """Drive a run to its end; the worker takes what an earlier scheduler left open."""
        changes = Changes(asyncio.get_running_loop())
        provers = Provers(self.database, self.work.wakeups.tell)
        services = RunServices(
            self.database, self.writer, self.publish, self.work.wakeups.tell, changes, provers,
            ask_ahead=provers.ask_ahead,
        )  # fmt: skip
        for call in claims.claimable(self.database, self.worker, 100):
            self._slots.submit(self._caller.take, *call)
        poll = asyncio.create_task(self._poll(changes))
        run = asyncio.create_task(drive_run(taken, services))
        try:
            if during is not None:
                await during(changes)
            await asyncio.wait_for(run, _LONGEST_DRIVE_SECONDS)
        finally:
            for task in (run, poll):
                task.cancel()
            await asyncio.gather(run, poll, return_exceptions=True)

    def publish(self, publications: Sequence[Publication]) -> None:
        for one in publications:
            self._slots.submit(self._caller.take, one.call_id, one.request_id)

    async def _poll(self, changes: Changes) -> None:
        while True:
            changes.polled(await asyncio.to_thread(runs.poll, self.database, changes.seen()))
            await asyncio.sleep(_LOOK_SECONDS)

    def _do_duties(self) -> None:
        questions = Questions(self.work, {RECOVER: recover_call, PROOFS: answer_proofs})
        flags = StopFlags(self.work)
        while not self._closing.wait(_LOOK_SECONDS):
            flags.poll()
            if not self.silent.is_set():
                questions.answer_open()


class _Told:
    """A worker's writer that tells of each row behind it."""

    def __init__(self, writer: Any, house: House) -> None:
        self._writer = writer
        self._house = house

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, claim: Claim, *rows: NewCallRow) -> Any:
        written = self._writer.append(claim, *rows)
        for row in rows:
            self._house.at_row(row)
        return written

    def note(self, claim: Claim, *rows: NewCallRow) -> None:
        self._writer.note(claim, *rows)
        for row in rows:
            self._house.at_row(row)

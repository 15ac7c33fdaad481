"""A hand that does what workers do, as far as the engine can see: it claims calls and appends their rows.

`Field.drive` runs `drive_run` on a loop of its own; what the hand answers is a
function of the call's prepared row, so a test says what the world does in one place.
"""

from __future__ import annotations

import asyncio
import json
import queue
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.changes import RunWatch
from scheduler.flow.services import Inputs, Proofs, RunServices, nothing_to_prove
from scheduler.run import drive_run
from shared.base.canonical import digest_bytes
from shared.journal import claims, hosts, read, run_leases, runs
from shared.journal.append import Claim, JournalWriter
from shared.journal.database import Database
from shared.journal.outbox import Publication
from shared.journal.submit import submit
from shared.model import ops
from shared.model.roles import Role
from shared.model.rows import CallRow, EventRow, NewCallRow, Row
from shared.model.spec import RunSpec

ops.register(ops.NOOP)

ROLES = {
    name: Role(name, "m1", "low", sandbox, "")
    for name, sandbox in [("executor", "workspace-write"), ("reviewer", "read-only"), ("architect", "read-only")]
}
# None: the message is dropped and nobody claims; no rows: the call is claimed and kept.
Answer = Callable[[CallRow], Sequence[NewCallRow] | None]
# Long past what any drive takes; on a busy machine a drive of thousands is slow, and no test is about that.
_LONGEST_DRIVE_SECONDS = 120


def completed(output: Any, **columns: Any) -> list[NewCallRow]:
    """The rows of a call that completed with this output."""
    return [NewCallRow("completed", result=json.dumps(output).encode(), **columns)]


def ended(event: str, reason: str, *, error: str | None = None, **columns: Any) -> list[NewCallRow]:
    """The rows of a call that ended without a result; `error` is the cause in words."""
    return [NewCallRow(event, {"reason": reason, **({"error": error} if error else {})}, **columns)]


def echo(prepared: CallRow) -> Sequence[NewCallRow]:
    """Agents answer with a thread and a turn, ops with their arguments."""
    if prepared.kind != "agent":
        return completed({"did": prepared.detail["arguments"]})
    thread = prepared.detail["context"].get("thread") or f"thread-{prepared.call_id[:6]}"
    return completed(
        {"said": prepared.detail["prompt"]}, thread_id=thread, turn_id=f"turn-{prepared.call_id[:6]}", tokens=7
    )


class Ears:
    """The ears of a loop; `hear` comes from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.open_ears: dict[str, RunWatch] = {}

    def open(self, run_id: str) -> RunWatch:
        return self.open_ears.setdefault(run_id, RunWatch(run_id))

    def close(self, watch: RunWatch) -> None:
        self.open_ears.pop(watch.run_id, None)

    def hear(self, run_id: str, stop: str | None = None) -> None:
        def note() -> None:
            ear = self.open_ears.get(run_id)
            if ear is not None:
                ear.stop = stop or ear.stop
                ear.notify()

        self._loop.call_soon_threadsafe(note)


class Hand:
    """One worker: claims what is published and answers it, in its own thread."""

    def __init__(self, field: Field, answer: Answer, hear: Callable[[str], None]) -> None:
        self._field = field
        self._answer = answer
        self._hear = hear
        self.published: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def publish(self, publications: Sequence[Publication]) -> None:
        for publication in publications:
            self.published.put((publication.call_id, publication.request_id))

    def look(self) -> None:
        """Take up what an earlier hand left, as a worker without a message does."""
        for call in claims.claimable(self._field.database, self._field.worker, 1000):
            self.published.put(call)

    def close(self) -> None:
        self.published.put(None)
        self._thread.join(10)

    def _work(self) -> None:
        while (call := self.published.get()) is not None:
            rows = read.load_call(self._field.database, call[0])
            prepared = next(row for row in reversed(rows) if row.event == "prepared")
            answer = self._answer(prepared)
            if answer is None:
                continue
            claim = self._field.claim(*call)
            if claim is not None and not answer:
                self._field.kept.append(claim)
            elif claim is not None:
                self._field.hand_writer.append(claim, *answer)
                self._hear(claim.run_id)


class Field:
    """A database with one scheduler and one worker."""

    def __init__(self, database: Database, labels: Sequence[str] = ()) -> None:
        self.database = database
        self.writer = JournalWriter(database)
        self.hand_writer = JournalWriter(database, host="h1")
        self.kept: list[Claim] = []
        self.proofs: Proofs = nothing_to_prove
        self.inputs: Inputs | None = None
        self.scheduler = self.new_scheduler()
        self.worker = self.new_worker(labels)

    def close(self) -> None:
        self.writer.close()
        self.hand_writer.close()

    def new_worker(self, labels: Sequence[str]) -> str:
        name = f"w-{secrets.token_hex(4)}"
        hosts.register(
            self.database,
            hosts.Identity(
                name, "h1", "id", "home", 1, "1", "boot", "m", tuple(labels), 64, 1, None, None, lease_seconds=600.0
            ),
        )
        return name

    def new_scheduler(self) -> str:
        name = f"s-{secrets.token_hex(4)}"
        hosts.register_scheduler(self.database, name, 600.0, machine="m", pid=1, version=1)
        return name

    def claim(self, call_id: str, request_id: str) -> Claim | None:
        got = claims.claim(self.database, self.worker, call_id, request_id, f"g-{secrets.token_hex(6)}")
        return got if isinstance(got, Claim) else None

    def submit(self, script: str, args: Any = None, files: Mapping[str, str] | None = None, **spec: Any) -> str:
        """Submit a run of a script with `async def main(flow, args)`."""
        sources = {"flow.py": script.encode(), **{name: text.encode() for name, text in (files or {}).items()}}
        values: dict[str, Any] = {
            "workflow": "flow.py", "script": "flow.py", "hub": "/hub", "base": "0" * 40, "target": "", "args": args,
            "sources": {name: digest_bytes(raw) for name, raw in sources.items()}, "roles": ROLES,
        }  # fmt: skip
        return submit(self.database, RunSpec(**{**values, **spec}), sources).run_id

    def take(self, scheduler: str | None = None) -> run_leases.TakenRun:
        (taken,) = run_leases.take(self.database, scheduler or self.scheduler, 1)
        return taken

    def drive(self, answer: Answer = echo, during: Callable[[Ears], Any] | None = None) -> None:
        """Take the one run that waits and drive it to its end; `during` runs beside it."""
        asyncio.run(self.driving(self.take(), answer, during))

    async def driving(
        self, taken: run_leases.TakenRun, answer: Answer = echo, during: Callable[[Ears], Any] | None = None
    ) -> None:
        ears = Ears()
        hand = Hand(self, answer, ears.hear)
        services = self.services(hand, ears)
        hand.look()
        run = asyncio.create_task(drive_run(taken, services))
        try:
            if during is not None:
                await during(ears)
            await asyncio.wait_for(run, _LONGEST_DRIVE_SECONDS)
        finally:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            await asyncio.to_thread(hand.close)

    def services(self, hand: Hand, ears: Ears) -> RunServices:
        return RunServices(
            self.database, self.writer, hand.publish, lambda run_id: None, ears, self.proofs, self.inputs
        )

    def resume(self, run_id: str) -> None:
        """Ask for a resume of a run that nobody drives."""
        state = runs.run_state(self.database, run_id)
        assert state is not None and runs.reopen(self.database, state) is not None

    def rows(self, run_id: str) -> list[Row]:
        return read.load(self.database, run_id)

    def end(self, run_id: str) -> Mapping[str, Any]:
        """The data of the finished row that is the run's last."""
        row = self.rows(run_id)[-1]
        assert isinstance(row, EventRow) and row.kind == "finished", row
        return row.data

    def events(self, run_id: str, kind: str) -> list[EventRow]:
        return [row for row in self.rows(run_id) if isinstance(row, EventRow) and row.kind == kind]

    def calls(self, run_id: str, event: str) -> list[CallRow]:
        return [row for row in self.rows(run_id) if isinstance(row, CallRow) and row.event == event]

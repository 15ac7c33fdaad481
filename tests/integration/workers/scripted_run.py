"""A run that the test drives by hand, as a scheduler would: opens calls, reads their ends."""

from __future__ import annotations

import uuid

from shared.base.ids import call_id, request_id
from shared.broker.publish import Publisher
from shared.journal import hosts, run_leases
from shared.journal.append import JournalWriter
from shared.journal.members import OpenCall, RunRows
from shared.journal.outbox import Publication
from shared.model.rows import CallRow, NewCallRow
from tests.farm import Farm


class ScriptedRun:
    """One run of one path, its scheduler's lease held by the test."""

    def __init__(self, farm: Farm, **spec: object) -> None:
        self.farm = farm
        self.run_id = farm.submit("async def main(flow, args): pass", **spec)
        scheduler_id = str(uuid.uuid4())
        hosts.register_scheduler(farm.database, scheduler_id, 3600, machine="test", pid=1, version=1)
        [taken] = run_leases.take(farm.database, scheduler_id, 1)
        self.lease = taken.lease
        self.writer = JournalWriter(farm.database)
        self.publisher = Publisher(farm.valkey.url)
        self._position = 0

    def open(self, *, node: str | None = None, kind: str = "noop", publish: bool = True, **arguments: object) -> str:
        """Open one call and publish it; its id."""
        self._position += 1
        call = call_id(self.run_id, "main", self._position)
        detail = {"op": kind, "arguments": arguments, "input_digest": "0" * 64, "node": node}
        opened = OpenCall(
            call, "main", self._position, kind, node, "op", request_id(self.run_id, call), 0,
            NewCallRow("prepared", detail),
        )  # fmt: skip
        appended = self.writer.submit(RunRows(self.lease, opens=(opened,), progress=True)).result()
        if publish:
            self.publisher.send(appended.publications)
        return call

    def send_again(self, call: str, queue: str) -> None:
        """Publish a call to a queue of the test's choice."""
        self.publisher.send(
            [Publication(call, request_id(self.run_id, call), 9, queue, self.run_id, "noop", None, None, None)]
        )

    def end_of(self, call: str) -> CallRow | None:
        """The call's terminal row."""
        ends = [row for row in self.farm.call_rows(self.run_id) if row.call_id == call and row.event != "prepared"]
        return ends[-1] if ends else None

    def close(self) -> None:
        """Let go."""
        self.writer.close()
        self.publisher.close()

"""The journal writer: one queue a process, many members a commit.

Members that wait at the same moment go in one transaction, whole prefixes of the
queue, so that rows of one process keep their order. An intent returns to its caller
when it is committed; an observation may wait 200 ms for a group to ride with.
Each member is judged by the right it carries: a stale one fails alone.

A commit whose answer was lost is settled by sending the same group again under the
counts of rows written: the database waits for the old backend, and a member that it
had stored is recognised. A member that the database refuses for its content is
found by halving the group.
Source: rules of the protocol 1, 2, 3, 31, 45; design of the farm, "Group commit".
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass

import psycopg2

from shared.base.crashpoint import crashpoint
from shared.base.errors import RightLost, StoreError
from shared.base.log import get_logger
from shared.journal.database import Database
from shared.journal.encoding import Encoded, encode
from shared.journal.group import AppendConnection, Verdict, refusal
from shared.journal.members import (
    Appended,
    CallRows,
    Claim,
    EndedCall,
    Member,
    OpenCall,
    Publication,
    RunLease,
    RunRows,
)
from shared.journal.results import put_results
from shared.model.rows import NewCallRow

__all__ = [
    "Appended", "CallRows", "Claim", "EndedCall", "JournalWriter", "Member", "OpenCall", "RunLease", "RunRows",
]  # fmt: skip

OBSERVATION_WAIT_SECONDS = 0.2
GROUP_MEMBERS = 256
GROUP_RUNS = 64
GROUP_BYTES = 8 * 1024 * 1024
GIVE_UP_SECONDS = 600.0


@dataclass(slots=True)
class Pending:
    """A member in the queue. `due` is when it must go even if nobody waits."""

    member: Member
    encoded: Encoded
    future: Future[Appended]
    due: float

    @property
    def right(self) -> Claim | RunLease:
        """The claim or lease it is written under."""
        return self.member.claim if isinstance(self.member, CallRows) else self.member.lease


class JournalWriter:
    """Appends rows for every call and run of this process. Thread-safe.

    Args:
        host: the farm host of a worker; its rows and effects name it.
        give_up_seconds: how long a group is tried while Postgres is away.
    """

    def __init__(
        self, database: Database, *, host: str | None = None, give_up_seconds: float = GIVE_UP_SECONDS
    ) -> None:
        self._database = database
        self._connection = AppendConnection(database, host, give_up_seconds)
        self._queue: deque[Pending] = deque()
        self._changed = threading.Condition()
        self._hurry = 0
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._thread.start()

    def submit(self, member: Member, *, wait: bool = True) -> Future[Appended]:
        """Queue a member; the future ends when it is committed or refused.

        Results above 64 KiB are stored here, in the caller's thread, before the row that names them.

        Args:
            wait: False for observations: they ride with the next group, at most 200 ms later.

        Raises:
            RowRefused: a row is none the journal can store.
            StoreError: the writer is closed.

        The future raises RightLost, RunStopping, BudgetSpent, RowRefused or StoreUnavailable.
        """
        encoded = encode(member)
        if encoded.large:
            put_results(self._database, encoded.large)
        future: Future[Appended] = Future()
        with self._changed:
            if self._closed:
                raise StoreError("the journal writer is closed: nothing can be appended any more")
            due = 0.0 if wait else time.monotonic() + OBSERVATION_WAIT_SECONDS
            self._queue.append(Pending(member, encoded, future, due))
            if wait:
                self._hurry += 1
            if wait or len(self._queue) == 1:
                self._changed.notify_all()
        return future

    def append(self, claim: Claim, *rows: NewCallRow) -> Appended:
        """Append rows of a claimed call and return when they are committed. Raises as `submit`'s future does."""
        return self.submit(CallRows(claim, rows)).result()

    def note(self, claim: Claim, *rows: NewCallRow) -> None:
        """Append observations; returns at once. What refuses them also refuses the next intent."""
        self.submit(CallRows(claim, rows), wait=False)

    def flush(self) -> None:
        """Return when everything queued before is committed or refused."""
        with self._changed:
            waiting = [item.future for item in self._queue]
            for item in self._queue:
                self._hurry += item.due != 0.0
                item.due = 0.0
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._busy and all(future.done() for future in waiting))

    def close(self) -> None:
        """Write what is queued and stop. While Postgres is away it stops trying after a few seconds."""
        with self._changed:
            self._closed = True
            self._connection.hurry()
            self._changed.notify_all()
        self._thread.join()
        self._connection.close()

    # -- the writer's thread ----------------------------------------------------------------------

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._write(group)
            except BaseException as error:  # noqa: BLE001 - whoever waits must hear of anything that goes wrong here
                get_logger().exception("journal_writer_failed")
                for item in group:
                    item.right.failed = True
                    if not item.future.done():
                        item.future.set_exception(StoreError(f"the journal writer failed: {error}"))
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _next_group(self) -> list[Pending]:
        """The longest prefix of the queue that fits one transaction; empty when closed and written out."""
        with self._changed:
            while not (self._queue and (self._hurry or self._closed or self._queue[0].due <= time.monotonic())):
                if self._closed:
                    return []
                self._changed.wait(max(0.0, self._queue[0].due - time.monotonic()) if self._queue else None)
            group: list[Pending] = []
            runs: set[str] = set()
            weight = 0
            while self._queue and len(group) < GROUP_MEMBERS:
                item = self._queue[0]
                runs.add(item.encoded.run_id)
                weight += item.encoded.weight_bytes
                if group and (len(runs) > GROUP_RUNS or weight > GROUP_BYTES):
                    break
                group.append(self._queue.popleft())
                if item.due == 0.0:
                    self._hurry = max(0, self._hurry - 1)
                # How many rows a withdrawal writes is known only afterwards: it closes its group.
                if isinstance(item.member, RunRows) and item.member.withdraw:
                    break
            self._busy = True
            return group

    def _write(self, group: list[Pending]) -> None:
        """Write a group; halves it where the database refuses its content, repeats what has to be judged again."""
        while group:
            group = [item for item in group if not self._refuse_failed(item)]
            if not group:
                return
            for item in group:
                for event in item.encoded.events:
                    crashpoint(f"before:{event}")
            try:
                verdicts = self._connection.send([(item.right, item.encoded) for item in group])
            except psycopg2.Error as error:
                if len(group) == 1:
                    group[0].future.set_exception(refusal("refused", group[0].encoded, error))
                    return
                middle = len(group) // 2
                self._write(group[:middle])
                group = group[middle:]
                continue
            except StoreError as error:
                for item in group:
                    item.right.failed = True
                    item.future.set_exception(error)
                return
            for item in group:
                for event in item.encoded.events:
                    crashpoint(f"after:{event}")
            group = [item for item, verdict in zip(group, verdicts, strict=True) if not _settle(item, verdict)]

    def _refuse_failed(self, item: Pending) -> bool:
        if not item.right.failed:
            return False
        item.future.set_exception(
            RightLost("an earlier row's fate is not known: nothing more may be written under this right")
        )
        return True


def _settle(item: Pending, verdict: Verdict) -> bool:
    """Tell the caller how it ended; False when the member has to be sent again."""
    if verdict.status == "again":
        item.right.rows_written = verdict.count
        return False
    if verdict.status in ("ok", "stored"):
        if verdict.status == "ok":
            item.right.rows_written += verdict.count
        else:
            item.right.rows_written = max(item.right.rows_written, verdict.count)
        if isinstance(item.right, Claim) and item.encoded.head["sends"]:
            item.right.sent = True
        withdrawn = verdict.count - len(verdict.seqs) if verdict.status == "ok" else 0
        item.future.set_result(Appended(verdict.seqs, _publications(item, verdict), withdrawn))
        return True
    item.future.set_exception(refusal(verdict.status, item.encoded, None))
    return True


def _publications(item: Pending, verdict: Verdict) -> tuple[Publication, ...]:
    # After a lost answer the outbox alone publishes: its rows are due within 30 s.
    return tuple(
        Publication(
            opened["call"], opened["request"], 1, verdict.queues[opened["call"]], opened["run"], opened["kind"],
            opened["role"], opened["node"], opened["label"],
        )
        for opened in item.encoded.opens
        if opened["call"] in verdict.queues
    )  # fmt: skip

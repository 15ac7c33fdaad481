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
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue

import psycopg2

from shared.base.errors import RightLost, StoreError
from shared.base.log import get_logger
from shared.journal.database import Database
from shared.journal.encoding import encode
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
from shared.journal.queue import MemberQueue, Pending
from shared.journal.results import put_results
from shared.model.rows import NewCallRow

__all__ = [
    "Appended", "CallRows", "Claim", "EndedCall", "JournalWriter", "Member", "OpenCall", "RunLease", "RunRows",
]  # fmt: skip

GIVE_UP_SECONDS = 600.0
_AGAIN_SECONDS = 0.005


class JournalWriter:
    """Appends rows for every call and run of this process. Thread-safe.

    Args:
        host: the farm host of a worker; its rows and effects name it.
        on_ends: told, from the writer's thread, of runs in which claimed calls have just ended; must not block.
        give_up_seconds: how long a group is tried while Postgres is away.
    """

    def __init__(
        self,
        database: Database,
        *,
        host: str | None = None,
        give_up_seconds: float = GIVE_UP_SECONDS,
        on_ends: Callable[[str], None] = lambda run_id: None,
    ) -> None:
        self._database = database
        self._on_ends = on_ends
        self._connection = AppendConnection(database, host, give_up_seconds)
        self._queue = MemberQueue()
        self._answers: SimpleQueue[list[Pending]] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name="journal-writer", daemon=True),
            threading.Thread(target=self._answer, name="journal-answers", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

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
        item = Pending(member, encoded, Future())
        # From here on it cannot be cancelled: what is queued will be written, whoever stops waiting for it.
        item.future.set_running_or_notify_cancel()
        self._queue.put(item, wait=wait)
        return item.future

    def append(self, claim: Claim, *rows: NewCallRow) -> Appended:
        """Append rows of a claimed call and return when they are committed. Raises as `submit`'s future does."""
        return self.submit(CallRows(claim, rows)).result()

    def note(self, claim: Claim, *rows: NewCallRow) -> None:
        """Append observations; returns at once. What refuses them also refuses the next intent."""
        self.submit(CallRows(claim, rows), wait=False)

    def flush(self) -> None:
        """Return when everything queued before is committed or refused."""
        wait([item.future for item in self._queue.hurry()])

    def close(self) -> None:
        """Write what is queued and stop. While Postgres is away it stops trying after a few seconds."""
        self._connection.hurry()
        self._queue.close()
        for thread in self._threads:
            thread.join()
        self._connection.close()

    # -- the writer's threads ---------------------------------------------------------------------

    def _run(self) -> None:
        while group := self._queue.next_group():
            try:
                self._write(group)
            except BaseException as error:  # noqa: BLE001 - whoever waits must hear of anything that goes wrong here
                get_logger().exception("journal_writer_failed")
                for item in group:
                    item.right.failed = True
                    item.outcome = item.outcome or StoreError(f"the journal writer failed: {error}")
            self._tell_ends(group)
            # Woken callers keep the interpreter busy: when more is due, it is on its way before they hear.
            if self._queue.is_due():
                self._answers.put(group)
            else:
                _answer(group)
        self._answers.put([])

    def _tell_ends(self, group: list[Pending]) -> None:
        """Whoever waits for an end elsewhere hears of it before this process's own callers go on."""
        for run_id in {item.encoded.run_id for item in group if _has_ended(item)}:
            try:
                self._on_ends(run_id)
            except Exception:  # noqa: BLE001 - logged here, with why it goes on
                # A hint that was not given costs a poll; a writer that ended for it would cost the process.
                get_logger().exception("ends_not_told")

    def _answer(self) -> None:
        while group := self._answers.get():
            _answer(group)

    def _write(self, group: list[Pending]) -> None:
        """Write a group; halves it where the database refuses its content, repeats what has to be judged again."""
        while group:
            group = [item for item in group if not self._refuse_failed(item)]
            if not group:
                return
            try:
                verdicts = self._connection.send([(item.right, item.encoded) for item in group])
            except psycopg2.Error as error:
                if len(group) == 1:
                    group[0].outcome = refusal("refused", group[0].encoded, error)
                    return
                middle = len(group) // 2
                self._write(group[:middle])
                group = group[middle:]
                continue
            except StoreError as error:
                for item in group:
                    item.right.failed = True
                    item.outcome = error
                return
            again = [item for item, verdict in zip(group, verdicts, strict=True) if not _settle(item, verdict)]
            if len(again) == len(group):
                # What stood in the way passed between two looks; the next try finds out.
                time.sleep(_AGAIN_SECONDS)
            group = again

    def _refuse_failed(self, item: Pending) -> bool:
        if not item.right.failed:
            return False
        item.outcome = RightLost("an earlier row's fate is not known: nothing more may be written under this right")
        return True


def _settle(item: Pending, verdict: Verdict) -> bool:
    """Note how a member ended; False when it has to be sent again."""
    if verdict.status == "again":
        return False
    if verdict.status not in ("ok", "stored"):
        item.outcome = refusal(verdict.status, item.encoded, None)
        return True
    if verdict.status == "ok":
        item.right.rows_written += item.encoded.size + verdict.withdrawn
    else:
        item.right.rows_written = verdict.count
    if isinstance(item.right, Claim) and item.encoded.sends:
        item.right.sent = True
    if isinstance(item.right, Claim) and item.encoded.terminal:
        item.right.ended = True
    item.outcome = Appended(verdict.seqs, _publications(item, verdict), verdict.withdrawn)
    return True


def _has_ended(item: Pending) -> bool:
    return isinstance(item.right, Claim) and item.right.ended and item.encoded.terminal


def _answer(group: list[Pending]) -> None:
    """Tell the callers of a group how it ended."""
    for item in group:
        if isinstance(item.outcome, Appended):
            item.future.set_result(item.outcome)
        else:
            item.future.set_exception(item.outcome)


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

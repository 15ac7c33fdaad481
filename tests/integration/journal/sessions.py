"""Two sessions at once: one holds a transaction open, the other is seen waiting for its lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from shared.journal.append import Claim
from shared.journal.claims import Ask, claim_parameters
from shared.journal.encoding import encode
from shared.journal.members import CallRows, Member, RunRows
from shared.journal.parameters import append_parameters
from shared.journal.queries.writing import APPEND, CLAIM
from shared.model.rows import NewCallRow
from tests.journal_farm import Farm
from tests.waiting import wait_until

T = TypeVar("T")


class Session:
    """A transaction that stays open until the test commits it."""

    def __init__(self, farm: Farm) -> None:
        self.farm = farm
        self.connection = farm.database.connect_raw()
        self.connection.autocommit = False
        self.cursor = self.connection.cursor()
        # The database ends whoever idles in a transaction; a test on a busy machine may take longer.
        self.cursor.execute("set idle_in_transaction_session_timeout = 0")
        self.connection.commit()

    def run(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run one statement inside the open transaction."""
        self.cursor.execute(statement, parameters)
        return list(self.cursor.fetchall()) if self.cursor.description else []

    def append(self, member: Member, host: str = "h1") -> bool:
        """Send a group of one; whether it was written."""
        right = member.claim if isinstance(member, CallRows) else member.lease
        (answer,) = self.run(APPEND, append_parameters(host, [(right, encode(member))]))
        return answer[0] is not None

    def append_rows(self, claim: Claim, *events: str) -> bool:
        """Append rows of a call."""
        return self.append(CallRows(claim, tuple(NewCallRow(event) for event in events)))

    def claim(self, worker: str, call_id: str, request_id: str, grant: str) -> tuple[Any, ...]:
        """Ask for a call: (reason against it or None, ...)."""
        return self.run(CLAIM, claim_parameters(worker, [Ask(call_id, request_id, grant)]))[0]

    def commit(self) -> None:
        """End the transaction."""
        self.connection.commit()


@contextmanager
def session(farm: Farm) -> Iterator[Session]:
    """A session, closed at the end; what it did not commit is rolled back."""
    made = Session(farm)
    try:
        yield made
    finally:
        made.connection.close()


@contextmanager
def waiting(one: Session, action: Callable[[], T]) -> Iterator[Future[T]]:
    """Start `action` in another thread and go on once it waits for a lock of the session."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(action)
        try:
            wait_until(lambda: future.done() or lock_waits(one.farm), 30, "the second session to wait for the lock")
            assert not future.done(), f"it did not wait: {future.exception() or future.result()}"
            yield future
        finally:
            # Also when the test fails: the other thread must not wait for ever.
            one.connection.rollback()


def lock_waits(farm: Farm) -> int:
    """How many sessions of this database wait for a lock."""
    ((count,),) = farm.rows(
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    )
    return int(count)


__all__ = ["RunRows", "Session", "lock_waits", "session", "waiting"]

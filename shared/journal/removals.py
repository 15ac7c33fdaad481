"""The right to remove what an ended run left: a run is removed from, or opened again, never both at once.

A removal is an intent like any other: its row is committed before anything goes, under
the lock of the run and only while that has ended. Whoever opens the run again (a resume,
a fork of it, a recovery of one of its calls) locks it too and refuses while such a row
stands. The row ends with the removal. One whose owner died holds until its worker is
known to be gone (a lease that ran out is no proof), else for a few minutes from its last
sign of life; a remover that was silent for that long has lost the right, and finds out
before its next step.
Source: rules of the protocol, 4 and 39.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from shared.base.errors import RightLost, StoreError, UsageError
from shared.base.log import get_logger
from shared.journal.database import Database, retrying
from shared.journal.queries import removing as statements

# A push of deletions ends before (`shared/hub/deletion.py`), and no worktree takes as long to remove.
_HOLD_SECONDS = 300.0
# Many small steps need no round trip each.
_CONFIRM_SECONDS = 1.0
GoOn = Callable[[], None]
"""Called before each step of a removal. Raises RightLost: the run may be in use again, so nothing more goes."""

log = get_logger()


@dataclass(frozen=True)
class Cleaner:
    """Who removes something of a run. Shape: `place` hub or `host <name>`; `seconds_left` it has to show itself."""

    run_id: str
    place: str
    seconds_left: float

    def sentence(self) -> str:
        """What is going on, and when to try again."""
        return (
            f"what run {self.run_id} left is being removed now ({self.place}); give the command again when that is "
            f"done, in {max(1, round(self.seconds_left))} s at the latest if whoever removes it has died"
        )


@contextmanager
def removing(
    database: Database, run_id: str, place: str, *, worker: str | None = None, days: float | None = None,
    resumes: int | None = None,
) -> Iterator[GoOn]:  # fmt: skip
    """Hold the right to remove what an ended run left, while the block runs.

    Args:
        worker: the incarnation that removes, when it is one; the right ends with it.
        days: only when the run ended longer ago than that.
        resumes: only when the run was resumed so often.

    Writes: a row of `run_cleaners`, and the run's `cleaned_at`.

    Raises:
        UsageError: the run has not ended, or is another one than was meant by now; nothing may be removed.
        RightLost: the worker was declared dead.
    """
    cleaner = str(uuid.uuid4())
    values = {"cleaner": cleaner, "run": run_id, "place": place, "worker": worker, "days": days, "resumes": resumes}
    # Before it is asked for: a process that was frozen behind the answer has been silent as long.
    confirmed = _clock()
    _begin(database, values | {"seconds": _HOLD_SECONDS})

    def go_on() -> None:
        nonlocal confirmed
        if (asked := _clock()) - confirmed > _CONFIRM_SECONDS:
            _renew(database, cleaner, run_id)
            confirmed = asked

    try:
        yield go_on
    finally:
        try:
            retrying(lambda: _end(database, cleaner), give_up_seconds=5)
        except (StoreError, SQLAlchemyError) as error:
            log.info("cleaner_not_ended", run=run_id, why=str(error))


def lock_against_removal(connection: Connection, run_id: str) -> list[Cleaner]:
    """Lock a run and those it was forked from until the transaction ends; who is removing something of them.

    While this is empty and the locks are held no removal can begin.
    """
    runs = list(connection.execute(statements.line_to_keep(), {"run": run_id}).scalars())
    connection.execute(statements.drop_dead_cleaners(), {"runs": runs})
    return _cleaners(connection.execute(statements.cleaners(), {"runs": runs}).all())


def load_cleaners(database: Database, run_id: str) -> list[Cleaner]:
    """Who is removing something of a run, or of one it was forked from: for people."""

    def read() -> list[Cleaner]:
        with database.statement() as connection:
            return _cleaners(connection.execute(statements.cleaners_of_line(), {"run": run_id}).all())

    return retrying(read)


def _cleaners(rows: Sequence[Any]) -> list[Cleaner]:
    return [Cleaner(**row._mapping) for row in rows]


def _begin(database: Database, values: dict[str, Any]) -> None:
    run, worker = values["run"], values["worker"]

    def begin() -> None:
        with database.transaction() as connection:
            if worker is not None and connection.execute(statements.worker_to_clean(), values).first() is None:
                raise RightLost(f"run {run} is not removed from here: this worker was declared dead", run=run)
            if connection.execute(statements.run_to_clean(), values).first() is None:
                raise UsageError(f"run {run} has not ended, or was resumed meanwhile: what it has stays", run=run)
            connection.execute(statements.new_cleaner(), values)

    retrying(begin)


def _renew(database: Database, cleaner: str, run_id: str) -> None:
    values = {"cleaner": cleaner, "seconds": _HOLD_SECONDS}

    def renew() -> None:
        with database.statement() as connection:
            if connection.execute(statements.renew_cleaner(), values).first() is None:
                raise RightLost(f"run {run_id}: the right to remove what it left ran out", run=run_id)

    retrying(renew)


def _end(database: Database, cleaner: str) -> None:
    with database.statement() as connection:
        connection.execute(statements.end_cleaner(), {"cleaner": cleaner})


def _clock() -> float:
    """Seconds since boot, sleep included: a machine that slept has been silent."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)

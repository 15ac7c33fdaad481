"""The calls of a run that have not ended: where each is, who works on it, and whether anything was sent.

Source: design of the farm, "The life of a call".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shared.journal.database import Database, retrying
from shared.journal.queries import claiming


@dataclass(frozen=True)
class OpenCallState:
    """A call of a run that has not ended. `host` is where it is, or which host it waits for (None: any)."""

    call_id: str
    path: str
    position: int
    kind: str
    role: str | None
    label: str | None
    node_id: str | None
    state: str
    host: str | None
    worker_id: str | None
    sent: bool
    crashes: int
    attempt: int
    fence: int
    opened_at: Any
    claimed_at: Any
    request_id: str = ""


@contextmanager
def held_still(database: Database, run_id: str) -> Iterator[list[OpenCallState]]:
    """The calls of a run that have not ended; none of those at work can end while the block runs. Keep it short.

    Raises:
        StoreUnavailable: the database went away, before the block or at its end.
    """
    with database.transaction() as connection:
        # Who appends to one of them waits here for its claim, the first lock of every append.
        connection.execute(claiming.claims_at_work(), {"run": run_id})
        yield [OpenCallState(**row._mapping) for row in connection.execute(claiming.open_calls(), {"run": run_id})]


def open_calls(database: Database, run_id: str) -> list[OpenCallState]:
    """The calls of a run that have not ended, in the order of paths and positions."""

    def read() -> list[OpenCallState]:
        with database.statement() as connection:
            return [OpenCallState(**row._mapping) for row in connection.execute(claiming.open_calls(), {"run": run_id})]

    return retrying(read)

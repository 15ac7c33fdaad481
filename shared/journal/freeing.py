"""Take a call from who holds it: it is open again, or stranded on the host where an effect was announced.

Every taking away raises the claim's fence, drops a placement that was not used and
publishes the call again.
Source: design of the farm, "The life of a call"; rules of the protocol 21, 22, 29.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from shared.base.kinds import LONGEST_SECONDS
from shared.journal.database import Database, retrying
from shared.journal.queries import claiming


@dataclass(frozen=True)
class Freed:
    """A claim that was taken from its holder. `sent`: stranded on `sent_host`, else open again."""

    call_id: str
    run_id: str
    node_id: str | None
    request_id: str
    sent: bool
    sent_host: str | None
    crashes: int


def free(connection: Connection, calls: Sequence[str], *, crashes: int) -> list[Freed]:
    """Take locked claims from their holder, drop their unused placements, publish them again. The callers lock."""
    if not calls:
        return []
    rows = connection.execute(claiming.free_claims(), {"calls": list(calls), "crashes": crashes}).all()
    freed = [Freed(**row._mapping) for row in rows]
    names = {"calls": [item.call_id for item in freed]}
    connection.execute(claiming.unplace(), names)
    connection.execute(claiming.announce(), names)
    return freed


def free_overdue(database: Database, grace_seconds: float) -> list[Freed]:
    """Take away the claims that are over their deadline by more than `grace_seconds`: their holder hangs."""

    def take() -> list[Freed]:
        with database.transaction() as connection:
            limits = {"grace": grace_seconds, "longest": LONGEST_SECONDS}
            calls = connection.execute(claiming.claims_overdue(), limits).scalars().all()
            return free(connection, calls, crashes=1)

    return retrying(take)


def announce(connection: Connection, calls: Sequence[str]) -> None:
    """Make waiting calls due for publishing now."""
    connection.execute(claiming.announce(), {"calls": list(calls)})

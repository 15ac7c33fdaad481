"""The outbox: what nobody has claimed yet, and when to publish it again.

A row lives from the intent until its call is claimed, ended or withdrawn.
Publishing only moves its next time, so a message that the broker lost is sent
again, and one that was delivered twice meets the claim. The process that opened a
call publishes it at once; the sweep takes what is due.
Source: rules of the protocol 32, 36.
"""

from __future__ import annotations

from shared.journal.database import Database, retrying
from shared.journal.members import Publication
from shared.journal.queries import claiming

__all__ = ["Publication", "take_due"]


def count(database: Database) -> int:
    """How many calls wait to be claimed."""
    [(waiting,)] = retrying(lambda: database.fetch("select count(*) from outbox", {}))
    return int(waiting)


def take_due(database: Database, limit: int) -> list[Publication]:
    """Calls to publish now; each is due again 30 s later, doubling up to 15 min. Send them after this returned."""

    def take() -> list[Publication]:
        with database.statement() as connection:
            rows = connection.execute(claiming.take_due(), {"limit": limit})
            return [Publication(**row._mapping) for row in rows]

    return retrying(take)

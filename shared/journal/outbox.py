"""The outbox: what nobody has claimed yet, and when to publish it again.

A row lives from the intent until its call is claimed, ended or withdrawn.
Publishing only moves its next time, so a message that the broker lost is sent
again, and one that was delivered twice meets the claim. The process that opened a
call publishes it at once, as far as its run's share goes; the sweep takes what is due.
A row that is held back, `not_before` infinity, is published when its run has room.
Source: rules of the protocol 32, 36.
"""

from __future__ import annotations

from shared.journal.database import Database, retrying
from shared.journal.members import Publication
from shared.journal.queries import publishing

__all__ = ["Publication", "any_held", "count", "take_due", "take_held"]


def count(database: Database) -> int:
    """How many calls wait to be claimed."""
    [(waiting,)] = retrying(lambda: database.fetch("select count(*) from outbox", {}))
    return int(waiting)


def take_due(database: Database, limit: int) -> list[Publication]:
    """Calls to publish now; each is due again 30 s later, doubling up to 15 min. Send them after this returned."""

    def take() -> list[Publication]:
        with database.statement() as connection:
            rows = connection.execute(publishing.take_due(), {"limit": limit})
            return [Publication(**row._mapping) for row in rows]

    return retrying(take)


def take_held(database: Database, at_once: int, limit: int) -> list[Publication]:
    """Calls that were held back and may be published now, runs in turns; send them after this returned, in order.

    Args:
        at_once: how many published calls of one run may wait to be claimed.
    """

    def take() -> list[Publication]:
        with database.statement() as connection:
            rows = connection.execute(publishing.take_held(), {"at_once": at_once, "limit": limit})
            return [Publication(**row._mapping) for row in rows]

    return retrying(take)


def any_held(database: Database) -> bool:
    """Whether calls of any run are held back."""
    [(held,)] = retrying(lambda: database.fetch(publishing.ANY_HELD, {}))
    return bool(held)

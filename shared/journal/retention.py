"""Which runs ended so long ago that what they left on hosts and hubs may go. Their rows stay for ever.

Source: rules of the protocol, 39.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.base.canonical import from_storable
from shared.journal.database import Database, retrying
from shared.journal.queries import retaining


def expired_runs(database: Database, runs: Iterable[str], days: float) -> list[str]:
    """Which of these runs ended more than `days` ago; one that the journal does not know is none of them."""
    asked = {"runs": sorted(runs), "days": days}

    def read() -> list[str]:
        with database.statement() as connection:
            return list(connection.execute(retaining.expired_runs(), asked).scalars())

    return retrying(read) if asked["runs"] else []


def threads_made(database: Database, run_id: str, host: str) -> list[str]:
    """The threads that calls of this very run made on a host; those of a run it was forked from are not its own."""

    def read() -> list[str]:
        with database.statement() as connection:
            rows = connection.execute(retaining.thread_rows(), {"run": run_id, "host": host}).all()
        mark = f"crw:{run_id}/"
        own = (row.thread_id for row in rows if str(from_storable(row.detail_json).get("source")).startswith(mark))
        return list(dict.fromkeys(own))

    return retrying(read)


def has_forks_in_use(database: Database, run_id: str, days: float) -> bool:
    """Whether a run forked from this one, over however many forks, has not ended more than `days` ago."""

    def read() -> bool:
        with database.statement() as connection:
            asked = {"run": run_id, "days": days}
            return connection.execute(retaining.forks_in_use(), asked).first() is not None

    return retrying(read)


def hubs_to_clean(database: Database, worker_id: str, days: float, limit: int) -> list[str]:
    """Expired runs whose refs nobody has removed from their hub yet, of those that this worker might reach."""
    asked = {"worker": worker_id, "days": days, "limit": limit}

    def read() -> list[str]:
        with database.statement() as connection:
            return list(connection.execute(retaining.hubs_to_clean(), asked).scalars())

    return retrying(read)


def hub_cleaned(database: Database, run_id: str) -> None:
    """Note that the run's refs are gone from its hub."""

    def put() -> None:
        with database.statement() as connection:
            connection.execute(retaining.hub_cleaned(), {"run": run_id})

    retrying(put)

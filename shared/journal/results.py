"""Results too large for their row: stored by digest, in a transaction of their own, before the row that names them.

A large insert holds no run's lock. A result that no row came to name stays unused;
the same bytes written again change nothing. Source: rules of the protocol 38.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from shared.journal.database import Database, retrying
from shared.journal.tables import flow_results


def put_results(database: Database, results: Mapping[str, bytes]) -> None:
    """Store results under the sha-256 of their bytes.

    Raises:
        StoreUnavailable: Postgres is away.
    """

    def put() -> None:
        with database.transaction() as connection:
            for digest, data in sorted(results.items()):
                connection.execute(insert(flow_results).values(digest=digest, bytes=data).on_conflict_do_nothing())

    retrying(put)


def load_result(database: Database, ref: str) -> bytes | None:
    """The bytes under a digest, or None."""

    def load() -> bytes | None:
        with database.transaction() as connection:
            data = connection.execute(select(flow_results.c.bytes).where(flow_results.c.digest == ref)).scalar()
            return None if data is None else bytes(data)

    return retrying(load)

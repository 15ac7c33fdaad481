"""Larger texts that rows name by digest: command logs, transcripts. Stored once, never changed."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from shared.base.canonical import digest_bytes
from shared.journal.database import Database, retrying
from shared.journal.tables import artifacts


def put(database: Database, data: bytes, media_type: str) -> str:
    """Store bytes under their sha-256 and return it; the same bytes again change nothing."""
    digest = digest_bytes(data)

    def store() -> str:
        with database.transaction() as connection:
            row = {"digest": digest, "media_type": media_type, "bytes": data}
            connection.execute(insert(artifacts).values(row).on_conflict_do_nothing())
            return digest

    return retrying(store)


def load(database: Database, digest: str) -> bytes | None:
    """The bytes under a digest, or None."""

    def read() -> bytes | None:
        with database.statement() as connection:
            data = connection.execute(select(artifacts.c.bytes).where(artifacts.c.digest == digest)).scalar()
            return None if data is None else bytes(data)

    return retrying(read)

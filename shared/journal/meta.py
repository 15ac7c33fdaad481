"""The schema's version and the server's settings: what a process checks before it does anything.

`farm_meta` also keeps the server's identity (system identifier and timeline) as it
was at the last upgrade, so that a restored or promoted server can be told apart.
Source: rules of the protocol 18, 42.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.errors
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError, ProgrammingError

from shared.base.errors import SchemaMismatch, StoreUnavailable, UsageError
from shared.base.log import mask_url
from shared.journal.history import check_history

SCHEMA_VERSION = 15
# Rows say which program wrote them; an older writer than `min_writer` of the schema may not write.
WRITER = 1
OLDEST_SERVER = 170000
_MIGRATIONS = Path(__file__).parent / "migrations"
_MUST_BE_ON = ("fsync", "full_page_writes", "synchronous_commit")


def migrations() -> Config:
    """Alembic's configuration: the scripts beside this file, no ini file."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return config


def newest_revision() -> int:
    """The number of the newest migration; `SCHEMA_VERSION` equals it."""
    head = ScriptDirectory.from_config(migrations()).get_current_head()
    return int(head or 0)


def upgrade(owner_url: str) -> None:
    """Bring the schema to this program's version; does nothing when it is there. Run as the schema's owner.

    Writes: the tables, functions and grants; `farm_meta`.

    Raises:
        StoreUnavailable: Postgres cannot be reached.
        SchemaMismatch: the schema is newer than this program.
        UsageError: this login may not make what the schema needs.
    """
    engine = create_engine(
        make_url(owner_url).set(drivername="postgresql+psycopg2"), connect_args={"connect_timeout": 5}
    )
    try:
        with engine.begin() as connection:
            connection.execute(text("set local statement_timeout = 0"))
            connection.execute(text("set local lock_timeout = '30s'"))
            # Two upgrades at once: the second waits here and finds nothing to do. Ends with the transaction.
            connection.execute(text("select pg_advisory_xact_lock(7220011)"))
            _refuse_newer(_stored_version(connection.connection.cursor()))
            config = migrations()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            connection.execute(
                text(
                    "insert into farm_meta (schema_version, min_writer, system_id, timeline)"
                    " select :version, :writer, s.system_identifier::text, c.timeline_id"
                    " from pg_control_system() s, pg_control_checkpoint() c"
                    # Another history is accepted by a person, never by the way.
                    " on conflict (one) do update set schema_version = excluded.schema_version"
                ),
                {"version": SCHEMA_VERSION, "writer": WRITER},
            )
    except ProgrammingError as error:
        if isinstance(error.orig, psycopg2.errors.InsufficientPrivilege):
            raise UsageError(
                f"this login may not upgrade the schema ({str(error.orig).splitlines()[0]}); set "
                "CRW_ADMIN_DATABASE_URL to the owner of the database, who may also create the role crw_app"
            ) from None
        raise
    except DBAPIError as error:
        raise StoreUnavailable(
            f"the schema cannot be upgraded at {mask_url(owner_url)} ({str(error.orig).strip().splitlines()[0]})"
        ) from None
    finally:
        engine.dispose()


def check_server(cursor: Any) -> None:
    """Refuse a server that is too old or may lose rows, a schema that is not this program's, another history.

    Raises:
        SchemaMismatch, HistoryChanged, UsageError: as said.
    """
    cursor.execute("select current_setting('server_version_num')::int, current_setting('server_version')")
    number, name = cursor.fetchone()
    if number < OLDEST_SERVER:
        raise UsageError(f"Postgres {name} is too old for the journal; use version 17 or later")
    for setting in _MUST_BE_ON:
        cursor.execute("select current_setting(%s)", (setting,))
        if cursor.fetchone()[0] == "off":
            raise UsageError(f"Postgres runs with {setting}=off and could lose rows that were read; set {setting}=on")
    version = _stored_version(cursor)
    if version == 0:
        raise SchemaMismatch(
            f"the database has no journal and this program needs schema version {SCHEMA_VERSION}; run `crw db upgrade`",
            stored=0,
            needed=SCHEMA_VERSION,
        )
    _refuse_newer(version)
    if version < SCHEMA_VERSION:
        raise SchemaMismatch(
            f"the journal has schema version {version} and this program needs {SCHEMA_VERSION}; run `crw db upgrade`",
            stored=version,
            needed=SCHEMA_VERSION,
        )
    cursor.execute("select min_writer from farm_meta")
    require_writer(cursor.fetchone()[0])
    check_history(cursor)


def require_writer(oldest: int) -> None:
    """Refuse to write where the schema asks for a newer program.

    Raises:
        SchemaMismatch: this program's rows are older than `oldest`, the `min_writer` of `farm_meta`.
    """
    if oldest > WRITER:
        raise SchemaMismatch(
            f"the journal takes rows of writer {oldest} and newer, and this program is writer {WRITER}; install the "
            "newer program",
            stored=oldest,
            needed=WRITER,
        )


def _refuse_newer(version: int) -> None:
    if version > SCHEMA_VERSION:
        raise SchemaMismatch(
            f"the journal has schema version {version} and this program only knows {SCHEMA_VERSION}; "
            "install the newer program (`crw db upgrade` never goes back)",
            stored=version,
            needed=SCHEMA_VERSION,
        )


def _stored_version(cursor: Any) -> int:
    cursor.execute("select to_regclass('farm_meta') is not null")
    if not cursor.fetchone()[0]:
        return 0
    cursor.execute("select schema_version from farm_meta")
    row = cursor.fetchone()
    return int(row[0]) if row else 0

"""The schema's migrations, run. Apart from what every process checks (`meta`): to load them takes a tenth of a start.

Source: rules of the protocol 18, 42.
"""

from __future__ import annotations

from pathlib import Path

import psycopg2.errors
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError, ProgrammingError

from shared.base.errors import StoreUnavailable, UsageError
from shared.base.log import mask_url
from shared.journal.meta import SCHEMA_VERSION, WRITER, refuse_newer, stored_version

_MIGRATIONS = Path(__file__).parent / "migrations"


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
            refuse_newer(stored_version(connection.connection.cursor()))
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

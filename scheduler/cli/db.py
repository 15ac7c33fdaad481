"""The group `crw db`: the journal's schema."""

from __future__ import annotations

import click

from scheduler.cli.options import json_option
from scheduler.cli.output import record, say
from shared.base.errors import SettingsError
from shared.base.log import mask_url
from shared.base.settings import load_settings
from shared.journal.database import SCHEMA_VERSION
from shared.journal.database import upgrade as upgrade_schema


@click.group("db")
def command() -> None:
    """The journal's schema."""


@command.command("upgrade")
@click.option("--url", metavar="URL", help="The owner's URL; default: settings admin_database_url, then database_url.")
@json_option
def upgrade(url: str | None, as_json: bool) -> None:
    """Bring the schema to this program's version; does nothing when it is there.

    Run it as the owner of the database. Schedulers and workers then connect as a
    login that is a member of the role crw_app, which can insert rows and never change one.

    \b
    crw db upgrade
    CRW_ADMIN_DATABASE_URL=postgresql+psycopg2://owner@db/crw crw db upgrade
    """
    settings = load_settings()
    owner_url = url or settings.admin_database_url or settings.database_url
    if not owner_url:
        raise SettingsError("no database is named; set CRW_ADMIN_DATABASE_URL (or database_url) to the owner's URL")
    upgrade_schema(owner_url)
    if as_json:
        record({"schema_version": SCHEMA_VERSION, "database": mask_url(owner_url)})
    else:
        say(f"the journal at {mask_url(owner_url)} has schema version {SCHEMA_VERSION}")

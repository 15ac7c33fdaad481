"""`crw host undrain`: let a host take new nodes again."""

from __future__ import annotations

import click

from scheduler.cli.options import host_argument, json_option
from scheduler.cli.output import record, say
from scheduler.client import Farm
from shared.journal.draining import set_draining


@click.command("undrain")
@host_argument
@json_option
def command(name: str, as_json: bool) -> int:
    """Let host NAME take new nodes again; what moved away stays where it is.

    \b
    crw host undrain left
    """
    with Farm(process="cli") as farm:
        farm.check_database()
        changed = set_draining(farm.database, name, False)
    if as_json:
        record({"host": name, "state": "up", "changed": changed})
    else:
        say(f"host {name} takes new nodes" + ("" if changed else "; it was not draining"))
    return 0

"""`crw up`: a farm of one host on this machine, until Ctrl-C."""

from __future__ import annotations

import click

from deploy.up import run_up
from shared.base.settings import load_settings


@click.command("up")
@click.option("--scripted", is_flag=True, help="Put the demo's scripted model behind every role that has no model.")
def command(scripted: bool) -> int:
    """Run PostgreSQL, Valkey, scheduler, worker and Flower on this machine until Ctrl-C.

    Data stays in the state directory: runs go on when it is up again. Other
    terminals find this farm by themselves while nothing else is configured.

    \b
    crw up
    crw up --scripted
    """
    return run_up(load_settings(), scripted=scripted)

"""The group `crw host`: the hosts of the farm."""

from __future__ import annotations

import click

from scheduler.cli.lazy import LazyGroup

_COMMANDS = {
    "ls": ("scheduler.cli.host_ls", "list the hosts"),
    "login": ("scheduler.cli.host_login", "log this host in at the model's provider"),
}


@click.group("host", cls=LazyGroup, table=_COMMANDS)
def command() -> None:
    """The hosts of the farm.

    \b
    crw host ls
    crw host login
    """

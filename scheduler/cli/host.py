"""The group `crw host`: the hosts of the farm."""

from __future__ import annotations

import click

from scheduler.cli.lazy import LazyGroup

_COMMANDS = {
    "ls": ("scheduler.cli.host_ls", "list the hosts"),
    "drain": ("scheduler.cli.host_drain", "let a host finish what it has and take nothing new"),
    "undrain": ("scheduler.cli.host_undrain", "let it take new nodes again"),
    "lost": ("scheduler.cli.host_lost", "give a host up that will not come back"),
    "login": ("scheduler.cli.host_login", "log this host in at the model's provider"),
}


@click.group("host", cls=LazyGroup, table=_COMMANDS)
def command() -> None:
    """The hosts of the farm.

    \b
    crw host ls
    crw host login
    crw host drain NAME
    crw host lost NAME
    """

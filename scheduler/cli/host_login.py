"""`crw host login`: log this host in on the farm's own Codex home."""

from __future__ import annotations

import click

from scheduler.cli.process import become


@click.command("login")
@click.option("--with-api-key", is_flag=True, help="Read an API key from standard input instead of using a browser.")
@click.option("--device-auth", is_flag=True, help="Show a code to enter in a browser on another machine.")
@click.option("--status", is_flag=True, help="Say whether this host is logged in, and change nothing.")
def command(with_api_key: bool, device_auth: bool, status: bool) -> None:
    """Log this host in at the model's provider, on this host's own Codex home.

    The login of your own codex is neither used nor touched, and each host needs
    its own: the same login on two hosts is refused.

    \b
    crw host login
    crw host login --device-auth
    crw host login --with-api-key < key.txt
    """
    given = {"--with-api-key": with_api_key, "--device-auth": device_auth, "--status": status}
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} are both given; keep one of them")
    become("workers.login", chosen)

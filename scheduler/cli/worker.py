"""`crw worker`: the worker process of this host."""

from __future__ import annotations

from pathlib import Path

import click

from scheduler.cli.process import become


@click.command("worker")
@click.option("--host-name", metavar="NAME", help="This host's name on the farm; default: setting host_name.")
@click.option("--state-dir", type=click.Path(path_type=Path), help="This host's directory; default: setting state_dir.")
@click.option("--concurrency", type=click.IntRange(1, 256), help="Calls at once; default: setting concurrency.")
def command(host_name: str | None, state_dir: Path | None, concurrency: int | None) -> None:
    """Run this host's worker until SIGTERM or Ctrl-C.

    A farm host is one state directory with one Codex home and one login, and one
    live worker. Two workers on one machine are two hosts: give each a name and a
    directory of its own.

    \b
    crw worker
    crw worker --host-name left --state-dir /var/lib/crw/left --concurrency 8
    """
    become(
        "workers.app",
        settings={"host_name": host_name, "state_dir": state_dir and state_dir.absolute(), "concurrency": concurrency},
    )

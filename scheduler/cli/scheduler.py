"""`crw scheduler`: one scheduler process."""

from __future__ import annotations

import click

from scheduler.cli.process import become


@click.command("scheduler")
@click.option("--max-runs", type=click.IntRange(1), help="Runs driven at once; default: setting max_runs.")
def command(max_runs: int | None) -> None:
    """Run one scheduler until SIGTERM or Ctrl-C.

    Several may run, on any machines: a run belongs to one of them at a time, and
    when one dies the others take its runs over.

    \b
    crw scheduler
    crw scheduler --max-runs 50
    """
    become("scheduler.service", settings={"max_runs": max_runs})

"""`crw flow clean`: remove what an ended run left on its hosts and on the hub."""

from __future__ import annotations

import click

from scheduler.cleaning import Report, clean_run
from scheduler.cli.options import json_option, run_argument
from scheduler.cli.output import Table, draw, record
from scheduler.client import Farm
from shared.base.ids import RunId


@click.command("clean")
@run_argument
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the hosts.",
)
@json_option
def command(run: RunId, seconds: float, as_json: bool) -> int:
    """Remove what the ended RUN left: worktrees on its hosts, its refs in the repository.

    What it produced stays: the target branch, and every row in the journal. A host
    that is not up keeps what it has until the command is given again.
    Exit status 0 when all is removed, 1 when something is pending.

    \b
    crw flow clean RUN
    crw flow clean RUN --wait 300 --json
    """
    with Farm(process="cli") as farm:
        reports = clean_run(farm, run, seconds)
    if as_json:
        for report in reports:
            record(vars(report))
    else:
        draw(reports_table(reports))
    return int(any(report.state != "removed" for report in reports))


def reports_table(reports: list[Report]) -> Table:
    """One line a place."""
    return Table(("PLACE", "STATE", "DETAIL"), tuple((one.place, one.state, one.detail) for one in reports))

"""`crw flow ps`: list runs."""

from __future__ import annotations

import click

from scheduler.cli.options import json_option
from scheduler.cli.output import draw, record, say
from scheduler.cli.render_runs import runs_table, summary_record
from scheduler.client import Farm
from shared.journal.database import clock
from shared.journal.summaries import load_summaries


@click.command("ps")
@click.option("--all", "everything", is_flag=True, help="Ended runs as well.")
@click.option("--state", type=click.Choice(["queued", "running", "paused", "quarantined", "ended"]), help="Only these.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many, newest first.")
@json_option
def command(everything: bool, state: str | None, limit: int, as_json: bool) -> None:
    """List the runs that have not ended, newest first.

    \b
    crw flow ps
    crw flow ps --all --limit 200
    crw flow ps --state ended --json
    """
    with Farm(process="cli") as farm:
        farm.check_database()
        summaries = load_summaries(farm.database, limit=limit, state=state, with_ended=everything or state == "ended")
        now = clock(farm.database)
    if as_json:
        for summary in summaries:
            record(summary_record(summary, now))
    elif summaries:
        draw(runs_table(summaries, now))
    else:
        say("no runs" if everything or state else "no open runs; 'crw flow ps --all' lists ended ones as well")

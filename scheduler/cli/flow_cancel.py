"""`crw flow cancel`: stop a run."""

from __future__ import annotations

import click

from scheduler.cli.options import json_option, run_argument
from scheduler.cli.output import note, record, say
from scheduler.cli.render_run import waiting_words
from scheduler.cli.view import RunView
from scheduler.client import Farm
from scheduler.outcome import end_words
from shared.base.errors import StillRunning
from shared.base.ids import RunId
from shared.journal.hosts import list_schedulers
from shared.journal.read import load_lean, open_calls


@click.command("cancel")
@run_argument
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the end.",
)
@json_option
def command(run: RunId, seconds: float, as_json: bool) -> int:
    """Stop RUN: from now on nothing of it is sent.

    Calls that nobody has taken are withdrawn, running turns are interrupted where
    that can be done, and the run ends when the last of them has. When --wait is
    over the command says what the run still waits for; the stop stays in force.
    Exit status 0 when the run has ended (also when it had before), 1 when it has not yet.

    \b
    crw flow cancel RUN
    crw flow cancel RUN --wait 0
    """
    with Farm(process="cli") as farm:
        before = farm.cancel(run)
        alive = any(scheduler.alive for scheduler in list_schedulers(farm.database))
        if not alive and before.state != "ended" and not as_json:
            note("no scheduler is alive; the run ends when one is started: 'crw scheduler'")
        try:
            outcome = farm.wait(run, seconds if alive else 0)
        except StillRunning:
            silent = RunView.of(run, load_lean(farm.database, run)).silent
            waits = [f"{one.call_id}: {waiting_words(one, silent)}" for one in open_calls(farm.database, run)]
            _print_pending(run, waits, alive, as_json)
            return 1
    if as_json:
        record({"run": run, "ended": True, "status": outcome.status, "error_kind": outcome.error_kind})
    elif before.state == "ended":
        say(f"run {run} had ended before: {outcome.status}")
    else:
        say(f"run {run} {end_words(outcome.status, outcome.error_kind)}")
    return 0


def _print_pending(run: RunId, waits: list[str], alive: bool, as_json: bool) -> None:
    if as_json:
        record({"run": run, "ended": False, "scheduler_alive": alive, "waits_for": waits})
        return
    say(f"run {run} is stopped and has not ended yet" + (", it waits for:" if waits else ""))
    for words in waits:
        say(f"  {words}")

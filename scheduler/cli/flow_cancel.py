"""`crw flow cancel`: stop a run."""

from __future__ import annotations

import time
from collections.abc import Iterable

import click

from scheduler.cli.options import json_option, run_argument
from scheduler.cli.output import note, record, say
from scheduler.cli.render_run import waiting_words
from scheduler.cli.view import RunView
from scheduler.client import Farm
from scheduler.closing import Closer
from scheduler.outcome import Outcome, end_words
from shared.base.errors import StillRunning
from shared.base.ids import RunId
from shared.journal.open_calls import open_calls
from shared.journal.read import load_lean
from shared.journal.roster import list_schedulers
from shared.journal.stopping import give_up
from shared.model.rows import EventRow, Row

# What its scheduler needs to end the calls that were given up: a look, the guard on the hub, the rows.
_LAST_WAIT_SECONDS = 15.0


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

    Calls that nobody has taken are withdrawn, running turns are interrupted, the
    commands of running ops are killed, and the run ends when the last of them has.
    Where no scheduler has the run, this command ends it itself. When --wait is over,
    the calls of silent hosts are given up as outcome_unknown, and the command says
    what is still ending; the stop stays in force and no second cancel is needed.
    Exit status 0 when the run has ended (also when it had before), 1 when it has not yet.

    \b
    crw flow cancel RUN
    crw flow cancel RUN --wait 0
    """
    with Farm(process="cli") as farm:
        before = farm.cancel(run)
        outcome = end_run(farm, run, seconds, quiet=as_json)
        if outcome is None:
            _print_pending(farm, run, as_json)
            return 1
    if as_json:
        record({"run": run, "ended": True, "status": outcome.status, "error_kind": outcome.error_kind})
    elif before.state == "ended":
        say(f"run {run} had ended before: {end_words(outcome.status, outcome.error_kind)}")
    else:
        say(f"run {run} {end_words(outcome.status, outcome.error_kind)}")
    return 0


def end_run(farm: Farm, run: RunId, seconds: float, *, quiet: bool) -> Outcome | None:
    """How the run ended within the seconds: by its scheduler, or by this command where none has it."""
    deadline = time.monotonic() + seconds
    closer = Closer(farm.database, farm.settings.lease_seconds, farm.tell)
    try:
        while True:
            lease = closer.take(run)
            if lease is not None:
                if not quiet:
                    note(f"no scheduler has run {run}; it is ended from here")
                if closer.close_run(lease, deadline):
                    return farm.outcome(run)
                return None
            left = deadline - time.monotonic()
            outcome = _wait(farm, run, min(max(0.0, left), farm.settings.poll_seconds))
            if outcome is not None or left <= 0:
                break
        if outcome is None and give_up(farm.database, run):
            farm.tell(run)
            outcome = _wait(farm, run, _LAST_WAIT_SECONDS)
        return outcome
    finally:
        closer.close()


def _wait(farm: Farm, run: RunId, seconds: float) -> Outcome | None:
    try:
        return farm.wait(run, seconds)
    except StillRunning:
        return None


def _print_pending(farm: Farm, run: RunId, as_json: bool) -> None:
    rows = load_lean(farm.database, run)
    view = RunView.of(run, rows)
    ending = ending_words(view, rows)
    waits = [f"{one.call_id}: {waiting_words(one, view.silent)}" for one in open_calls(farm.database, run)]
    alive = any(scheduler.alive for scheduler in list_schedulers(farm.database))
    if as_json:
        record({"run": run, "ended": False, "scheduler_alive": alive, "ending": ending, "waits_for": waits})
        return
    say(
        f"run {run} is stopped and has not ended yet; it is ending: "
        + (", ".join(ending) or "no call in flight is known")
    )
    for words in waits:
        say(f"  {words}")
    say("no second cancel is needed: the run ends when they have ended" + ("" if alive else " and a scheduler is up"))


def ending_words(view: RunView, rows: Iterable[Row]) -> list[str]:
    """What a cancelled run is ending: the ops of its newest `cancel_waiting` row and the agent calls without an end."""
    open_calls_now = {call.call_id: call for call in view.open_calls}
    told = [row for row in rows if isinstance(row, EventRow) and row.kind == "cancel_waiting"]
    named = told[-1].data["calls"] if told else []
    ops = [
        f"{call['op']} (call {call['call_id']}, node {call['node']})"
        for call in named
        if call["call_id"] in open_calls_now
    ]
    agents = [
        f"{call.label or call.name} (call {call.call_id})" for call in open_calls_now.values() if call.kind == "agent"
    ]
    return ops + agents

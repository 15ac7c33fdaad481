"""`crw flow result`: what a run's script returned."""

from __future__ import annotations

import json

import click

from scheduler.cli.options import json_option, run_argument
from scheduler.cli.output import note, record, say
from scheduler.client import Farm
from scheduler.outcome import Outcome
from shared.base.ids import RunId


@click.command("result")
@run_argument
@click.option("--wait", "timeout", type=click.FloatRange(0), metavar="SECONDS", help="Wait this long for the end.")
@json_option
def command(run: RunId, timeout: float | None, as_json: bool) -> int:
    """Print what RUN's script returned, as JSON.

    Exit status 0 when the script came to its end, 1 when the run ended in an
    error, 2 when it has not ended.

    \b
    crw flow result RUN
    crw flow result RUN --wait 600 --json
    """
    with Farm(process="cli") as farm:
        outcome = farm.outcome(run) if timeout is None else farm.wait(run, timeout)
    print_outcome(outcome, as_json)
    return exit_status(outcome)


def print_outcome(outcome: Outcome, as_json: bool) -> None:
    """The end of a run: its result on standard output, or the sentence that says why there is none."""
    if as_json:
        record(outcome_record(outcome))
    elif outcome.ok:
        say(json.dumps(outcome.result, indent=2, ensure_ascii=False))
    else:
        note(outcome.sentence())
        if outcome.traceback:
            note(outcome.traceback.rstrip())


def outcome_record(outcome: Outcome) -> dict[str, object]:
    """The end of a run as a JSON object."""
    return {
        "run": outcome.run_id,
        "status": outcome.status,
        "error_kind": outcome.error_kind,
        "message": outcome.message,
        "result": outcome.result,
    }


def exit_status(outcome: Outcome) -> int:
    """0 when the script came to its end, 1 otherwise."""
    return 0 if outcome.ok else 1

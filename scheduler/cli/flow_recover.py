"""`crw flow recover`: settle a call whose outcome is unknown, by proof."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from scheduler.cli.options import RunArgument, json_option
from scheduler.cli.output import record, say
from scheduler.client import Farm
from scheduler.given_up import settle_given_up, was_given_up
from shared.base.errors import UsageError
from shared.base.ids import RunId, is_call_id
from shared.journal import questions
from shared.journal.read import load_call
from shared.journal.roster import HostState, list_hosts
from shared.journal.runs import load_spec
from shared.model.call_state import read_call_state
from shared.model.rows import CallRow
from shared.model.settlement import read_settlement

_LOOK_SECONDS = 0.3
_IN_HAND = ("queued", "running")


@click.command("recover")
@click.argument("call", metavar="CALL")
@click.option("--run", type=RunArgument(), default=None, metavar="RUN", help="The run that holds the call.")
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the host.",
)
@json_option
def command(call: str, run: RunId | None, seconds: float, as_json: bool) -> int:
    """Look up once more what became of CALL, whose outcome is unknown.

    The host that worked on it reads the thread back. What it can prove ends the
    call: with its answer, or held, so that a resume of the run goes on with it.
    Nothing is sent to a model. The run must have ended or be paused. A call of a host
    that was given up is taken back where a second run can be no second effect: a resume
    does it again.
    Exit status 0 when the call is settled so, 1 when it is not, 2 when there is no such unknown call.

    \b
    crw flow recover CALL
    crw flow recover CALL --wait 600 --json
    """
    if not is_call_id(call):
        raise UsageError(f"{call!r} is no call id; 'crw flow show RUN' lists a run's calls")
    with Farm(process="cli") as farm:
        farm.check_database()
        rows = _unknown_rows(farm, call, run)
        host = _host_of(farm, rows)
        if was_given_up(farm.database, host.host, rows):
            found = settle_given_up(farm.database, host.host, rows)
        else:
            found = _ask(farm, host.host, rows[0].run_id, call, seconds)
    if as_json:
        record({"call": call, "run": rows[0].run_id, "host": host.host, **found})
    elif found["proven"]:
        reason = f" ({found['reason']})" if found.get("reason") else ""
        sentence = f": {found['sentence']}" if found.get("sentence") else ""
        say(f"call {call} {found['status']}{reason}{sentence}")
    else:
        say(f"call {call} stays unknown ({found['reason']}): {found['sentence']}")
    return 0 if found["proven"] else 1


def _unknown_rows(farm: Farm, call: str, run: RunId | None) -> Sequence[CallRow]:
    """The rows of a call in recovery hold.

    Raises:
        UsageError: there is none, it is another run's, its outcome is known, or its run is being driven.
    """
    rows = load_call(farm.database, call)
    if not rows:
        raise UsageError(f"there is no call {call}; 'crw flow show RUN' lists a run's calls")
    held_by = rows[0].run_id
    if run is not None and run != held_by:
        raise UsageError(f"call {call} belongs to run {held_by}, not to {run}")
    state = read_call_state(rows)
    if not state.is_unknown:
        waits = read_settlement(rows)
        if waits is not None and waits.recover is not None:
            raise UsageError(f"{waits.words}; recover that one with 'crw flow recover {waits.recover}'")
        now = state.terminal.event if state.terminal is not None else "still open"
        raise UsageError(f"the outcome of call {call} is not unknown: it is {now}; 'crw flow show {call}' tells more")
    # Refuses a run of a newer format.
    load_spec(farm.database, held_by)
    driven = farm.state(held_by)
    if driven.state in _IN_HAND:
        raise UsageError(
            f"run {held_by} is {driven.state}, and its script was given the unknown outcome; recover the call when the "
            f"run has ended, or end it with 'crw flow cancel {held_by}'"
        )
    return rows


def _host_of(farm: Farm, rows: Sequence[CallRow]) -> HostState:
    name = next((row.host for row in reversed(rows) if row.host is not None), None)
    found = next((host for host in list_hosts(farm.database) if host.host == name), None)
    if found is None:
        raise UsageError(f"no host has worked on call {rows[0].call_id}: there is nobody to ask")
    return found


def _ask(farm: Farm, host: str, run: str, call: str, seconds: float) -> dict[str, Any]:
    question = questions.ask(farm.database, host, questions.RECOVER, run, call)
    end = time.monotonic() + seconds
    while (found := questions.load_answer(farm.database, question)) is None:
        if time.monotonic() > end:
            sentence = (
                f"host {host} has not answered yet; it does when it is up ('crw host ls'). If it never is again, "
                f"give it up with 'crw host lost {host}' and recover the call once more"
            )
            return {"proven": False, "reason": "host_silent", "sentence": sentence}
        time.sleep(_LOOK_SECONDS)
    return found

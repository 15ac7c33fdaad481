"""`crw flow show`: a run's calls, or one call with its transcript."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import click

from scheduler.cli.options import json_option
from scheduler.cli.output import draw, record, say
from scheduler.cli.render_call import (
    call_facts,
    log_lines,
    output_lines,
    parse_transcript,
    recover_words,
    rows_lines,
    settlement_facts,
    settlement_record,
    transcript_digests,
    transcript_lines,
)
from scheduler.cli.render_rows import row_record
from scheduler.cli.render_run import call_record, calls_table, facts_lines, run_facts, run_record, waiting_words
from scheduler.cli.view import RunView
from scheduler.client import Farm
from shared.base.errors import UsageError
from shared.base.ids import RunId, is_call_id, is_run_id
from shared.base.log import mask_url
from shared.journal import artifacts
from shared.journal.database import Database, clock
from shared.journal.open_calls import open_calls
from shared.journal.read import load_call, load_lean
from shared.journal.replay import read_call_result
from shared.journal.roster import list_hosts
from shared.journal.runs import RunState, load_spec
from shared.model.outcome import Ended
from shared.model.rows import CallRow
from shared.model.settlement import read_settlement


@click.command("show")
@click.argument("what", metavar="RUN|CALL")
@click.option("--transcript/--no-transcript", default=True, help="Whether a call is shown with its turns.")
@json_option
def command(what: str, transcript: bool, as_json: bool) -> None:
    """Show a run with its calls, or one call with its rows and transcript.

    An open call says what it waits for: a worker, a host that is silent, a push to
    the repository.

    \b
    crw flow show RUN
    crw flow show CALL
    crw flow show RUN --json
    """
    if not (is_run_id(what) or is_call_id(what)):
        raise UsageError(f"{what!r} is neither a run id nor a call id; 'crw flow ps' lists the runs")
    with Farm(process="cli") as farm:
        farm.check_database()
        if is_run_id(what):
            _show_run(farm, RunId(what), as_json)
        else:
            _show_call(farm.database, what, transcript, as_json)


def _show_run(farm: Farm, run: RunId, as_json: bool) -> None:
    state = farm.state(run)
    spec = load_spec(farm.database, run)
    rows = load_lean(farm.database, run)
    view = RunView.of(run, rows)
    if state.state != "ended":
        # Somebody asked for a resume, and no scheduler has written a row of it yet.
        view.open_again()
    able = _able_hosts(farm.database, spec.label) if view.open_calls else {}
    why = recover_words(rows)
    why |= {one.call_id: waiting_words(one, view.silent, able) for one in open_calls(farm.database, run)}
    extra: dict[str, Any] = {
        "quarantine": quarantine_words(state),
        "workflow": spec.workflow,
        "repository": mask_url(spec.hub),
        "base": spec.base,
        "target": spec.target_branch(run),
        "key": state.run_key,
        "stop": state.stop,
        "cleaned": cleaned_words(state),
    }
    if as_json:
        record(run_record(view, state.state, extra, why))
        return
    now = clock(farm.database)
    say(facts_lines(run_facts(view, state.state, extra, now)))
    if view.calls:
        say()
        draw(calls_table(view, why, now))


def _able_hosts(database: Database, label: str | None) -> dict[str, bool]:
    """The living hosts that may take calls of a run with this label; whether they take new ones."""
    living = (host for host in list_hosts(database) if host.alive and (label is None or label in host.labels))
    return {host.host: host.state != "draining" for host in living}


def _show_call(database: Database, call_id: str, transcript: bool, as_json: bool) -> None:
    rows = load_call(database, call_id)
    if not rows:
        raise UsageError(f"there is no call {call_id}; 'crw flow show RUN' lists a run's calls")
    run = RunId(rows[0].run_id)
    (call,) = RunView.of(run, rows).calls.values()
    why = {one.call_id: waiting_words(one, {}) for one in open_calls(database, run)}.get(call_id)
    settlement = read_settlement(rows)
    ended = read_call_result(rows)
    turns = _load_turns(database, rows) if transcript else []
    if as_json:
        output = None if ended is None else ended.output
        shown = {"output": output, "rows": [row_record(row) for row in rows], "turns": turns}
        record({**call_record(call, why), **settlement_record(settlement), **shown})
        return
    facts = [*call_facts(call, rows), *settlement_facts(settlement)]
    say(facts_lines([*facts, ("waits for", why)] if why else facts))
    say("\n" + "\n".join(rows_lines(rows)) + "\n")
    for number, turn in enumerate(turns, 1):
        entries = turn["entries"]
        say(f"-- turn {number} ({turn['turn']}) --")
        say("\n".join(transcript_lines(entries)) if entries is not None else "(its transcript is not kept)\n")
    if ended is not None:
        say("\n".join([*output_lines(ended), *_log_lines(database, ended)]))


def _load_turns(database: Database, rows: list[CallRow]) -> list[dict[str, Any]]:
    turns = []
    for turn, digest in transcript_digests(rows):
        data = artifacts.load(database, digest)
        turns.append({"turn": turn, "entries": None if data is None else parse_transcript(data)})
    return turns


def _log_lines(database: Database, ended: Ended) -> list[str]:
    digest = ended.output.get("log_digest") if isinstance(ended.output, dict) else None
    data = artifacts.load(database, digest) if isinstance(digest, str) else None
    return [] if data is None else log_lines(data)


def cleaned_words(state: RunState) -> str | None:
    """Since when what the run left may be gone; None for a run of which nothing was removed."""
    if state.cleaned_at is None:
        return None
    return f"{state.cleaned_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: a resume does again what is on no branch"


def quarantine_words(state: RunState) -> str | None:
    """Why a run was set aside and what to type; None for one that was not."""
    if state.state != "quarantined":
        return None
    return (
        f"taken {state.takes_without_progress} times without progress: its script broke or blocked the schedulers that "
        f"drove it, or they died; look for the reason in their logs, then go on with 'crw flow resume {state.run_id}' "
        f"or end it with 'crw flow cancel {state.run_id}'"
    )

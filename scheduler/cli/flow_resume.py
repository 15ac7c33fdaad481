"""`crw flow resume`: go on with a run that ended, was paused or was set aside."""

from __future__ import annotations

from pathlib import Path

import click

from scheduler.cli.flow_result import exit_status, outcome_record, print_outcome
from scheduler.cli.flow_watch import watch_run
from scheduler.cli.options import json_option, parse_arguments, run_argument
from scheduler.cli.output import draw, record, say
from scheduler.cli.render_plan import plan_lines, plan_record, plan_table
from scheduler.client import Farm
from scheduler.preview import preview
from scheduler.resuming import Given, can_resume, check_same, why_not
from shared.base.errors import UsageError
from shared.base.ids import RunId
from shared.journal.runs import load_spec


@click.command("resume")
@run_argument
@click.argument("script", required=False, type=click.Path(path_type=Path))
@click.option("--repo", metavar="PATH|URL", help="The run's repository; only compared.")
@click.option("--args", "arguments", metavar="JSON", help="The run's arguments; only compared.")
@click.option("--args-file", type=click.Path(path_type=Path), metavar="FILE", help="The same from a file.")
@click.option("--plan", is_flag=True, help="Only say what would replay, go on, run live or stay held, and its cost.")
@click.option(
    "--patience",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="Seconds a host may take for --plan.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait for the end.")
@click.option("--watch", is_flag=True, help="Follow the run to its end, also one that is being driven.")
@json_option
def command(
    run: RunId,
    script: Path | None,
    repo: str | None,
    arguments: str | None,
    args_file: Path | None,
    plan: bool,
    patience: float,
    no_wait: bool,
    watch: bool,
    as_json: bool,
) -> int:
    """Go on with RUN: what its record still proves replays, held calls go on in place, the rest runs live.

    The run has its script and arguments; SCRIPT, --repo and --args are compared with
    them and refused when they differ. Waits for the end and prints the result; the
    exit status is 0 when the script came to its end and 1 otherwise.

    \b
    crw flow resume RUN --plan
    crw flow resume RUN
    crw flow resume RUN my_flow.py --args-file args.json --watch
    crw flow resume RUN --no-wait
    """
    if no_wait and watch:
        raise click.UsageError("--no-wait and --watch are both given; keep one of them")
    wants_args = arguments is not None or args_file is not None
    given = Given(script, (lambda: parse_arguments(arguments, args_file)) if wants_args else None, repo)
    if plan:
        return _plan(run, given, patience, as_json)
    with Farm(process="cli") as farm:
        after = farm.resume(run, given, attach=watch)
        if no_wait:
            if as_json:
                record({"run": run, "resumed": True})
            else:
                say(f"{run}  resumed")
            return 0
        if watch:
            watch_run(farm, run, after=after, as_json=as_json)
        outcome = farm.wait(run)
    if as_json and not watch:
        record(outcome_record(outcome))
    elif not as_json:
        print_outcome(outcome, as_json=False)
    return exit_status(outcome)


def _plan(run: RunId, given: Given, patience: float, as_json: bool) -> int:
    with Farm(process="cli") as farm:
        state = farm.state(run)
        check_same(load_spec(farm.database, run), given)
        if not can_resume(state):
            raise UsageError(why_not(farm.database, state))
        plan = preview(farm.database, state, farm.tell, patience)
    if as_json:
        record(plan_record(run, plan))
        return 0
    say("\n".join(plan_lines(plan)))
    table = plan_table(plan, whole=False)
    if table.rows:
        say()
        draw(table)
    return 0

"""`crw flow start`: submit a run."""

from __future__ import annotations

from pathlib import Path

import click

from scheduler.cli.flow_result import exit_status, outcome_record, print_outcome
from scheduler.cli.flow_watch import watch_run
from scheduler.cli.options import json_option, parse_arguments
from scheduler.cli.output import record, say
from scheduler.client import Farm
from scheduler.submitted import Submitted
from scheduler.wanted import BACKENDS, Wanted


@click.command("start")
@click.argument("script", type=click.Path(path_type=Path))
@click.option("--repo", required=True, metavar="PATH|URL", help="The repository that the run works on.")
@click.option("--base", metavar="REF", help="What it starts from; default the repository's HEAD.")
@click.option("--target", metavar="BRANCH", help="The branch that integrate moves; default crw/<run>.")
@click.option("--args", "arguments", metavar="JSON", help="What main gets as args; default {}.")
@click.option("--args-file", type=click.Path(path_type=Path), metavar="FILE", help="The same from a file.")
@click.option("--backend", type=click.Choice(BACKENDS), default=BACKENDS[0], show_default=True, help="Who runs turns.")
@click.option("--key", metavar="KEY", help="A name of your own: the same key never starts a second run.")
@click.option("--label", metavar="LABEL", help="Only hosts that offer this label take the run's calls.")
@click.option("--max-turns", type=click.IntRange(1), metavar="N", help="Cap on the model's turns in the whole run.")
@click.option("--trust-effects", is_flag=True, help="Take a script although it acts outside flow.* (see flow check).")
@click.option("--wait", is_flag=True, help="Wait for the end and print the result.")
@click.option("--watch", is_flag=True, help="Follow the run to its end and print the result.")
@json_option
def command(
    script: Path,
    repo: str,
    base: str | None,
    target: str | None,
    arguments: str | None,
    args_file: Path | None,
    backend: str,
    key: str | None,
    label: str | None,
    max_turns: int | None,
    trust_effects: bool,
    wait: bool,
    watch: bool,
    as_json: bool,
) -> int:
    """Submit a run of SCRIPT; everything is checked before anything is written.

    Prints the run's id and key. With --wait or --watch it stays until the run has
    ended, prints what main returned, and its exit status is 0 when the script came
    to its end and 1 otherwise; Ctrl-C leaves the run running.

    \b
    crw flow start my_flow.py --repo . --args '{"goal": "…"}' --watch
    crw flow start my_flow.py --repo git@host:me/project.git --base main --key nightly-7
    crw flow start my_flow.py --repo . --args-file args.json --wait --json
    """
    if wait and watch:
        raise click.UsageError("--wait and --watch are both given; keep one of them")
    wanted = Wanted(
        script=script,
        repo=repo,
        base=base,
        target=target,
        args=parse_arguments(arguments, args_file),
        key=key,
        label=label,
        max_turns=max_turns,
        trust_effects=trust_effects,
        backend=backend,
    )
    with Farm(process="cli") as farm:
        (run,) = farm.submit_wanted([wanted])
        if as_json and not wait:
            record({"run": run.run_id, "key": run.key, "created": run.created})
        elif not as_json:
            say(submitted_line(run))
        if watch:
            watch_run(farm, run.run_id, after=0, as_json=as_json)
        if not (wait or watch):
            return 0
        outcome = farm.wait(run)
    if as_json and wait:
        record({"key": run.key, "created": run.created, **outcome_record(outcome)})
    else:
        print_outcome(outcome, as_json)
    return exit_status(outcome)


def submitted_line(run: Submitted) -> str:
    """Id and key of a submitted run; a key that had it already is said."""
    return f"{run.run_id}  key {run.key}" + ("" if run.created else "  (the key had this run already)")

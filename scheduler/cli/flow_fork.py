"""`crw flow fork`: a new run from the proven prefix of another."""

from __future__ import annotations

import click

from scheduler.cli.options import json_option, run_argument
from scheduler.cli.output import record, say
from scheduler.client import Farm
from scheduler.forking import fork_run
from scheduler.resume.decisions import place_name
from shared.base.ids import RunId


@click.command("fork")
@run_argument
@click.option("--at", "at", required=True, metavar="POSITION", help="The first position that runs anew, as main:3.")
@click.option("--key", metavar="KEY", help="A name of your own: the same key never starts a second run.")
@json_option
def command(run: RunId, at: str, key: str | None, as_json: bool) -> int:
    """Start a new run that has what RUN had before POSITION, and runs on from there by itself.

    Everything behind POSITION is left out, on its path and behind the joins above it;
    paths beside it come along. A position whose effect cannot be proven any more ends
    the prefix on its path, too. The new run has worktrees and refs of its own, and its
    conversations go on as forks of the other's; RUN itself is not changed.

    \b
    crw flow fork RUN --at main:3
    crw flow fork RUN --at 'main/2[api]:4' --key second-try --json
    """
    with Farm(process="cli") as farm:
        state = farm.state(run)
        farm.check_services()
        forked = fork_run(farm.database, state, at, key)
        farm.tell(forked.run_id)
    cuts = [{"at": place_name(cut.place), "why": cut.why} for cut in forked.cuts]
    if as_json:
        record(
            {
                "run": forked.run_id, "key": forked.key, "created": forked.created, "from": run,
                "calls": forked.calls, "cuts": cuts,
            }
        )  # fmt: skip
        return 0
    if not forked.created:
        say(f"{forked.run_id}  key {forked.key}  (the key had this run already)")
        return 0
    say(f"{forked.run_id}  key {forked.key}")
    say(f"it begins with {forked.calls} calls of run {run}")
    for cut in cuts[1:]:
        say(f"  not with {cut['at']} and what is behind it: {cut['why']}")
    say(f"follow it with 'crw flow watch {forked.run_id}'")
    return 0

"""`crw flow explain`: why each position of a run replayed or ran, and what a resume would do with it."""

from __future__ import annotations

import click

from scheduler.cli.options import json_option, run_argument
from scheduler.cli.output import draw, note, record, say
from scheduler.cli.render_plan import explain_table, explained_lines, explained_record, plan_lines
from scheduler.client import Farm
from scheduler.preview import preview
from scheduler.resume.explain import explain
from scheduler.resume.plan import Plan
from scheduler.resuming import can_resume
from shared.base.errors import UsageError
from shared.base.ids import RunId
from shared.journal.read import load_lean
from shared.model.position import find_named


@click.command("explain")
@run_argument
@click.argument("position", required=False)
@click.option("--patience", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds a host may take.")
@json_option
def command(run: RunId, position: str | None, patience: float, as_json: bool) -> None:
    """Say for each position of RUN, or for POSITION alone, why it is as it is.

    Shows each attempt, which condition took it back (a to g) and what differed. For a
    run that nobody drives also what a resume would do with it now; nothing is changed.
    POSITION is written as the list has it in --json: main:3, or main/2[api]:1; in the
    brackets also as the table shows it.

    \b
    crw flow explain RUN
    crw flow explain RUN 'main/2[api]:3'
    crw flow explain RUN --json
    """
    with Farm(process="cli") as farm:
        state = farm.state(run)
        found = explain(load_lean(farm.database, run))
        if position is not None:
            name = find_named(position, (one.name for one in found))
            found = [one for one in found if one.name == name]
            if not found:
                raise UsageError(
                    f"nothing is recorded at {position!r}; 'crw flow explain {run} --json' lists the run's positions"
                )
        plan: Plan | None = None
        if can_resume(state):
            try:
                plan = preview(farm.database, state, farm.tell, patience)
            except UsageError as error:
                # What was recorded can be explained all the same.
                note(str(error))
    if as_json:
        for one in found:
            record(explained_record(one, plan.at(one.name) if plan is not None else None))
        return
    if position is not None:
        say("\n".join(explained_lines(found[0], plan.at(found[0].name) if plan is not None else None)))
        return
    if plan is not None:
        say("\n".join(plan_lines(plan)) + "\n")
    if found:
        draw(explain_table(found, plan))
    else:
        say("nothing is recorded yet")

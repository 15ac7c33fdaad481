"""The group `crw flow`."""

from __future__ import annotations

import click

from scheduler.cli.lazy import LazyGroup

_COMMANDS = {
    "check": ("scheduler.cli.flow_check", "say what a script has that a run may not"),
    "start": ("scheduler.cli.flow_start", "submit a run"),
    "batch": ("scheduler.cli.flow_batch", "submit one run for each line of a file"),
    "ps": ("scheduler.cli.flow_ps", "list runs"),
    "show": ("scheduler.cli.flow_show", "a run's calls, or one call with its transcript"),
    "watch": ("scheduler.cli.flow_watch", "follow a run"),
    "result": ("scheduler.cli.flow_result", "print what a run's script returned"),
    "resume": ("scheduler.cli.flow_resume", "go on with a run that ended or stopped"),
    "fork": ("scheduler.cli.flow_fork", "start a new run from what another one has proven"),
    "explain": ("scheduler.cli.flow_explain", "say why each position replayed or ran"),
    "recover": ("scheduler.cli.flow_recover", "settle a call whose outcome is unknown, by proof"),
    "cancel": ("scheduler.cli.flow_cancel", "stop a run"),
    "clean": ("scheduler.cli.flow_clean", "remove what an ended run left behind"),
}


@click.group("flow", cls=LazyGroup, table=_COMMANDS)
def command() -> None:
    """Start, watch and steer runs.

    \b
    crw flow start my_flow.py --repo . --args '{"goal": "…"}' --watch
    crw flow ps
    crw flow show RUN
    crw flow resume RUN
    """

"""`crw demo`: the whole farm on this machine for one run."""

from __future__ import annotations

import click

from deploy.demo.crash import run_crash_demo
from deploy.demo.run import run_demo
from scheduler.cli.options import json_option


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave repository, journal, state directories and logs on disk.")
@click.option("--flower", is_flag=True, help="Serve Flower meanwhile, and go on until Ctrl-C.")
@click.option("--crash", is_flag=True, help="Kill a worker, the scheduler and a whole host on the way, and resume.")
@json_option
def command(keep: bool, flower: bool, crash: bool, as_json: bool) -> int:
    """Watch a flow of three lanes become integrated commits, on services that come along.

    Starts PostgreSQL and Valkey from wheels, a scheduler, two worker hosts and a
    scripted model; agents run in the real App Server and edit a small repository
    that is made for it. Nothing needs to be configured, and nothing is left running.

    \b
    crw demo
    crw demo --keep --json
    crw demo --crash
    """
    if crash:
        if flower or as_json:
            raise click.UsageError("--crash goes with --keep alone")
        return run_crash_demo(keep=keep)
    return run_demo(keep=keep, as_json=as_json, flower=flower)

"""`crw host drain`: let a host finish what it has and take nothing new."""

from __future__ import annotations

import time

import click

from scheduler.cli.options import host_argument, json_option
from scheduler.cli.output import note, record, say
from scheduler.client import Farm
from shared.journal.draining import set_draining
from shared.journal.roster import HostState, find_host

_LOOK_SECONDS = 1.0


@click.command("drain")
@host_argument
@click.option(
    "--wait", "seconds", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
    help="How long to wait until the host has nothing left.",
)  # fmt: skip
@json_option
def command(name: str, seconds: float, as_json: bool) -> int:
    """Let host NAME take no new nodes, finish what it has, and give its idle nodes to others.

    A node moves when nothing is at work on it and its newest call is neither held nor
    unknown; its next call is restored from the hub on another host and goes on there in a
    new thread with the story so far, and so does the next call of a conversation of no node.
    The state stays until 'crw host undrain'. Exit status 0
    when nothing is left there, or when it was not waited for; 1 when something is.

    \b
    crw host drain left
    crw host drain left --wait 600
    """
    with Farm(process="cli") as farm:
        farm.check_database()
        changed = set_draining(farm.database, name, True)
        host = find_host(farm.database, name)
        assert host is not None, "it was there a moment ago"
        if seconds and not as_json:
            note(f"host {name} drains; it has {left_words(host)}")
        end = time.monotonic() + seconds
        while has_left(host) and time.monotonic() < end:
            time.sleep(min(_LOOK_SECONDS, max(0.0, end - time.monotonic())))
            host = find_host(farm.database, name) or host
    if as_json:
        record(
            {
                "host": name, "state": "draining", "changed": changed, "running": host.claimed,
                "stranded": host.stranded, "nodes": host.nodes,
            }
        )  # fmt: skip
    else:
        say(f"host {name} {'drains' if changed else 'was draining already'}; it has {left_words(host)}")
    return 1 if seconds and has_left(host) else 0


def has_left(host: HostState) -> bool:
    """Whether a draining host still has something."""
    return bool(host.claimed or host.stranded or host.nodes)


def left_words(host: HostState) -> str:
    """What a draining host still has."""
    parts = [
        f"{number} {word}"
        for number, word in ((host.claimed, "running"), (host.stranded, "stranded"), (host.nodes, "nodes"))
        if number
    ]
    return ", ".join(parts) or "nothing left"

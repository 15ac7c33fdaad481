"""`crw host ls`: list the hosts of the farm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from scheduler.cli.options import json_option
from scheduler.cli.output import Table, draw, duration, record, say, size
from scheduler.cli.render_run import drop_empty
from scheduler.cli.render_served import limit_words, served_record, server_words
from scheduler.client import Farm
from shared.journal.database import clock
from shared.journal.roster import HostState, list_hosts
from shared.journal.serving import list_limits, list_servers


@click.command("ls")
@json_option
def command(as_json: bool) -> None:
    """List the hosts of the farm: whether their worker lives, what it does, what it has.

    BEAT is how long ago the worker was last heard of, LOOK how long ago it last looked for
    calls: a worker that beats and does not look ends itself. CALLS are running, of so many
    slots; STRANDED calls wait for their host to come back; NODES have their worktree there.
    A draining host takes no new nodes and is empty when none of the three is left. DISK is
    what runs take there, as the host last looked. SERVER is its App Server: up for so long,
    or why the last one ended; LIMIT what its account has used of its fullest window.

    \b
    crw host ls
    crw host ls --json
    """
    with Farm(process="cli") as farm:
        farm.check_database()
        hosts, now = list_hosts(farm.database), clock(farm.database)
        servers, limits = list_servers(farm.database), list_limits(farm.database)
    if as_json:
        for host in hosts:
            served = served_record(servers.get(host.host), limits.get(host.host, ()))
            record({**host_record(host, now), **served})
    elif hosts:
        served_words = {
            host.host: (server_words(servers.get(host.host), now), limit_words(limits.get(host.host, ()), now))
            for host in hosts
        }
        draw(hosts_table(hosts, now, served_words))
    else:
        say("no host has registered yet; start 'crw worker' on one")


def state_of(host: HostState) -> str:
    """One word for host and worker together."""
    if host.state == "lost" or host.worker_state is None:
        return host.state if host.worker_state else "no worker"
    if host.worker_state in ("up", "draining") and not host.alive:
        return "silent"
    return host.worker_state if host.worker_state != "up" else host.state


def beat_age_seconds(host: HostState, now: datetime) -> float | None:
    """How long ago the worker was last heard of."""
    if host.lease_until is None or host.lease_seconds is None:
        return None
    return (now - (host.lease_until - timedelta(seconds=host.lease_seconds))).total_seconds()


def look_age_seconds(host: HostState, now: datetime) -> float | None:
    """How long ago the worker last looked for calls."""
    return None if host.looked_at is None else (now - host.looked_at).total_seconds()


def hosts_table(
    hosts: Sequence[HostState], now: datetime, served: Mapping[str, tuple[str, str]] | None = None
) -> Table:
    """One line a host; `served` says of each its App Server and its account's limit."""
    served = served or {}
    rows = tuple(
        (
            host.host,
            state_of(host),
            duration(beat_age_seconds(host, now)),
            duration(look_age_seconds(host, now)),
            f"{host.claimed}/{host.slots or 0}",
            str(host.stranded) if host.stranded else "",
            str(host.nodes) if host.nodes else "",
            size(host.run_bytes) if host.run_bytes is not None else "",
            free_words(host),
            host.codex_version or "",
            *served.get(host.host, ("", "")),
            str(host.version or ""),
            ",".join(label for label in host.labels),
            host.account or "",
        )
        for host in hosts
    )
    heads = (
        "HOST",
        "STATE",
        "BEAT",
        "LOOK",
        "CALLS",
        "STRANDED",
        "NODES",
        "DISK",
        "FREE",
        "CODEX",
        "SERVER",
        "LIMIT",
        "VERSION",
        "LABELS",
        "ACCOUNT",
    )
    return drop_empty(Table(heads, rows, frozenset({"BEAT", "LOOK", "CALLS", "STRANDED", "NODES", "DISK", "FREE"})))


def free_words(host: HostState) -> str:
    """The free space of the state directory; below the floor it says so."""
    if host.free_bytes is None:
        return ""
    low = host.min_free_bytes is not None and host.free_bytes < host.min_free_bytes
    return size(host.free_bytes) + (" (too little)" if low else "")


def host_record(host: HostState, now: datetime) -> dict[str, Any]:
    """A host as a JSON object."""
    beat, look = beat_age_seconds(host, now), look_age_seconds(host, now)
    return {
        "host": host.host,
        "state": state_of(host),
        "alive": host.alive,
        "beat_age_seconds": None if beat is None else round(beat, 1),
        "look_age_seconds": None if look is None else round(look, 1),
        "slots": host.slots,
        "running": host.claimed,
        "stranded": host.stranded,
        "nodes": host.nodes,
        "run_bytes": host.run_bytes,
        "free_bytes": host.free_bytes,
        "min_free_bytes": host.min_free_bytes,
        "codex_version": host.codex_version,
        "version": host.version,
        "labels": list(host.labels),
        "machine": host.machine,
        "account": host.account,
        "started_at": host.started_at.isoformat() if host.started_at else None,
    }

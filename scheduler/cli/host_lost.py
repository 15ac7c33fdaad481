"""`crw host lost`: give a host up."""

from __future__ import annotations

import click

from scheduler.cli.options import host_argument, json_option
from scheduler.cli.output import note, record, say
from scheduler.client import Farm
from scheduler.guarding import may_push, shut_out
from scheduler.lost_calls import HOST_LOST
from shared.base.errors import UsageError
from shared.journal import roster
from shared.journal.loss import lose_host
from shared.journal.roster import HostState
from shared.journal.stripping import Taken


@click.command("lost")
@host_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def command(name: str, yes: bool, as_json: bool) -> int:
    """Give host NAME up: what runs wait for there is done elsewhere, or said to be unknown.

    Use it when the machine will not come back. Calls that had sent nothing are open again
    for other hosts. Of the others, each run's scheduler decides: calls whose sandbox had no
    network, calls that only read and ops that may run again do so on another host, from
    what the hub has; everything else ends outcome_unknown. A worker that still lives there
    ends itself. A host that comes back registers anew and has nothing of this any more.

    \b
    crw host lost left
    crw host lost left --yes --json
    """
    with Farm(process="cli") as farm:
        farm.check_database()
        host = find_host(farm, name)
        if not yes:
            for line in warning(host):
                note(line)
            if not _confirmed(name):
                note("nothing was changed")
                return 1
        taken = lose_host(farm.database, name)
        assert taken is not None, "it was there a moment ago"
        errors = _shut_out(farm, taken)
        for run in taken.runs:
            farm.tell(run)
    if as_json:
        record(
            {
                "host": name, "state": "lost", "freed": list(taken.freed), "lost": [call for _, call in taken.lost],
                "nodes": [list(node) for node in taken.nodes], "runs": list(taken.runs), "guards_not_moved": errors,
            }
        )  # fmt: skip
    else:
        for line in report(name, taken, errors):
            say(line)
    return 1 if errors else 0


def _confirmed(name: str) -> bool:
    try:
        return click.confirm(f"Give host {name} up?", err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise UsageError(f"nobody is there to answer, and host {name} stays; give it up with --yes") from None
        raise


def find_host(farm: Farm, name: str) -> HostState:
    """The host of this name.

    Raises:
        UsageError: the farm knows none.
    """
    host = roster.find_host(farm.database, name)
    if host is None:
        known = ", ".join(one.host for one in roster.list_hosts(farm.database)) or "none has registered yet"
        raise UsageError(f"there is no host {name}; the farm knows: {known}")
    return host


def warning(host: HostState) -> list[str]:
    """What giving this host up means, before it is asked for."""
    lines = [f"host {host.host}: {host.claimed} calls running, {host.stranded} stranded, {host.nodes} nodes"]
    if host.alive:
        lines.append("its worker lives: it will end itself, and what it is doing is done again or becomes unknown")
    lines.append("work of calls that are running there and was not pushed to the hub is not used any more")
    return lines


def report(name: str, taken: Taken, errors: dict[str, str]) -> list[str]:
    """What was done, and what still has to happen."""
    lines = [f"host {name} is lost"]
    if taken.freed:
        lines.append(f"  {len(taken.freed)} calls that had sent nothing are open again")
    if taken.lost:
        lines.append(f"  {len(taken.lost)} calls had sent something: their runs say what becomes of each")
    if taken.nodes:
        lines.append(f"  {len(taken.nodes)} nodes go to other hosts with their next call")
    for run, error in errors.items():
        lines.append(f"  run {run}: {error}; its scheduler moves it before it says that a call is over")
    return lines


def _shut_out(farm: Farm, taken: Taken) -> dict[str, str]:
    """Move the guard of every run whose push may be under way; run -> why it could not be moved."""
    errors: dict[str, str] = {}
    for run, calls in taken.lost_by_run().items():
        if may_push(farm.database, calls):
            error = shut_out(farm.database, run, HOST_LOST)
            if error is not None:
                errors[run] = error
    return errors

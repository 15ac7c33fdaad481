"""Whether a process of the farm is well, by what it reports to the journal: `python -m deploy.health worker|scheduler`.

A process that hangs still exists; one that renews its lease works. Containers use it as
their health check: exit status 0 well, 1 not (the reason is printed).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shared.base.errors import CrwError, SettingsError
from shared.base.settings import load_settings
from shared.hub.machine import machine_label
from shared.journal.database import Database
from shared.journal.roster import list_hosts, list_schedulers

_CHECK_SECONDS = 5.0


def worker_is_up(database: Database, host: str) -> bool:
    """Whether a worker of this host holds its lease."""
    return any(state.host == host and state.alive for state in list_hosts(database))


def scheduler_is_up(database: Database, machine: str | None = None) -> bool:
    """Whether a scheduler (of this machine, if one is named) holds its lease."""
    return any(state.alive and machine in (None, state.machine) for state in list_schedulers(database))


def main(arguments: Sequence[str]) -> int:
    """Answer for the process of this machine."""
    what = arguments[0] if len(arguments) == 1 else ""
    try:
        settings = load_settings()
        if not settings.database_url:
            raise SettingsError("no database is named; set CRW_DATABASE_URL")
        database = Database(settings.database_url, process="health", pool_size=1)
        database.check(_CHECK_SECONDS)
        if what == "worker":
            well = worker_is_up(database, settings.host_name)
        elif what == "scheduler":
            well = scheduler_is_up(database, machine_label())
        else:
            raise SettingsError("name what to look at: worker or scheduler")
    except CrwError as error:
        print(error, file=sys.stderr)
        return 1
    if not well:
        print(f"no {what} of this machine holds a lease", file=sys.stderr)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

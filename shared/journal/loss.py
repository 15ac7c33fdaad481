"""Give a host up, by hand or after a long silence.

One transaction takes from it what it holds (`stripping`). A host that comes back
registers anew and finds none of it. What was bound to a lost host afterwards, a
conversation that a script continues for instance, is taken from it by the next pass.
Source: design of the farm, "Hosts, placement and loss"; rules of the protocol 11, 27.
"""

from __future__ import annotations

from shared.journal.database import Database, retrying
from shared.journal.hosts import Suspect
from shared.journal.queries import losing
from shared.journal.stripping import Taken, strip_host


def lose_host(database: Database, host: str) -> Taken | None:
    """Declare a host lost, also one that is lost already, and take from it what it has. None: no such host."""

    def lose() -> Taken | None:
        with database.transaction() as connection:
            if connection.execute(losing.host_to_change(), {"host": host}).first() is None:
                return None
            connection.execute(losing.set_host_state(), {"host": host, "state": "lost"})
            return strip_host(connection, host)

    return retrying(lose)


def missed_hosts(database: Database, after_seconds: float) -> list[Suspect]:
    """Hosts that are silent for so long and that a run waits for. Raises StoreUnavailable at once."""
    with database.statement() as connection:
        return [Suspect(**row._mapping) for row in connection.execute(losing.missed_hosts(), {"after": after_seconds})]


def lose_rest(database: Database) -> list[Taken]:
    """Take from hosts that are lost what was bound to them since: run at every pass."""
    with database.statement() as connection:
        hosts = list(connection.execute(losing.lost_with_rest()).scalars())
    taken = [lose_host(database, host) for host in hosts]
    return [one for one in taken if one is not None]

"""Take everything from a host: its calls, its conversations, its nodes, and every fence rises.

Calls that had sent nothing are open again for everybody. Calls that had sent something
are `lost`: nobody is granted them any more, and their run alone says what becomes of
each. Calls pinned to a conversation of that host are unpinned, its nodes have no place.
Source: rules of the protocol 12, 19, 21.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from shared.journal.freeing import free
from shared.journal.queries import claiming, farm, losing


@dataclass(frozen=True)
class Taken:
    """What was taken from a host.

    Shape: `freed` calls that are open again; `lost` (run, call) for the run to decide;
    `unpinned` calls that any host may take; `nodes` (run, node) that have no place now;
    `runs` all that this touches.
    """

    freed: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    unpinned: tuple[str, ...] = ()
    nodes: tuple[tuple[str, str], ...] = ()
    runs: tuple[str, ...] = ()

    def lost_by_run(self) -> dict[str, list[str]]:
        """Run -> its calls that are lost."""
        found: dict[str, list[str]] = {}
        for run, call in self.lost:
            found.setdefault(run, []).append(call)
        return found


def strip_host(connection: Connection, host: str) -> Taken:
    """Take everything from a host whose row is locked; its workers are dead by that."""
    living = connection.execute(farm.live_workers_of_host(), {"host": host}).all()
    ended = [worker.worker_id for worker in living]
    connection.execute(farm.end_workers(), {"workers": ended, "state": "dead"})
    workers = sorted({*ended, *connection.execute(losing.workers_ever(), {"host": host}).scalars()})
    claims = connection.execute(losing.claims_of_host(), {"host": host, "workers": workers}).all()
    sent = [row for row in claims if row.state == "stranded" or (row.state == "claimed" and row.sent)]
    unsent = [row.call_id for row in claims if row.state == "claimed" and not row.sent]
    pinned = [row.call_id for row in claims if row.state == "open"]
    free(connection, unsent, crashes=0)
    # One that was freed may be pinned as well.
    connection.execute(losing.unpin(), {"calls": pinned + unsent})
    if sent:
        connection.execute(claiming.lose_claims(), {"calls": [row.call_id for row in sent]})
    nodes = [(row.run_id, row.node_id) for row in connection.execute(losing.unplace_host(), {"host": host})]
    names = {"runs": [run for run, _ in nodes], "nodes": [node for _, node in nodes]}
    waiting = connection.execute(losing.waiting_on_nodes(), names).scalars().all()
    connection.execute(claiming.announce(), {"calls": sorted({*pinned, *waiting})})
    runs = sorted({*(row.run_id for row in claims), *(run for run, _ in nodes)})
    lost = tuple((row.run_id, row.call_id) for row in sent)
    return Taken(tuple(unsent), lost, tuple(pinned), tuple(nodes), tuple(runs))

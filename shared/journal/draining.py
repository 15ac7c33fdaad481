"""Drain a host: it takes no new nodes, finishes what it has, and its idle nodes go to others.

A node is idle when nothing is at work on it and its newest call is neither held nor
unknown: such a call goes on, or is looked up, where its conversation is. Moving a node
takes its placement away; its next call is placed anew, is restored from the hub, and
goes on in a checkpoint thread, because no fork crosses homes. A conversation of no node
moves so with its next call, when that waits: the host does not take it while another could.
Source: design of the farm, "Hosts, placement and loss"; rules of the protocol 12 and 43.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.base.errors import UsageError
from shared.journal.database import Database, retrying
from shared.journal.freeing import announce
from shared.journal.queries import draining, losing

_NODES_A_PASS = 200


@dataclass(frozen=True)
class IdleNode:
    """A node on a draining host that nothing is at work on. `mark` changes with any work on it."""

    run_id: str
    node_id: str
    host: str
    generation: int
    mark: int


def set_draining(database: Database, host: str, on: bool) -> bool:
    """Let a host take no new nodes, or again. False: it was so already.

    Raises:
        UsageError: there is no such host, or it is lost.
    """
    state = "draining" if on else "up"

    def change() -> bool:
        with database.transaction() as connection:
            row = connection.execute(losing.host_to_change(), {"host": host}).first()
            if row is None:
                raise UsageError(f"there is no host {host}; 'crw host ls' lists them")
            if row.state == "lost":
                raise UsageError(f"host {host} is lost: nothing of it is left to drain; start its worker anew")
            values = {"host": host, "state": state}
            connection.execute(losing.set_host_state(), values)
            connection.execute(draining.set_worker_state(), values)
            return bool(row.state != state)

    return retrying(change)


def idle_nodes(database: Database) -> list[IdleNode]:
    """Nodes of draining hosts that could move now, if another host is there for them."""

    def read() -> list[IdleNode]:
        with database.statement() as connection:
            rows = connection.execute(draining.idle_nodes(), {"limit": _NODES_A_PASS})
            return [IdleNode(**row._mapping) for row in rows]

    return retrying(read)


def move_node(database: Database, node: IdleNode) -> bool:
    """Take an idle node from its host; False when something came to work on it, or it moved already."""
    values = {"run": node.run_id, "node": node.node_id, "host": node.host, "generation": node.generation}

    def move() -> bool:
        with database.transaction() as connection:
            if connection.execute(draining.claims_at_work(), values).first() is not None:
                return False
            if connection.execute(draining.placement_to_move(), values).first() is None:
                return False
            # A call that was opened and claimed in between waited for the placement; this statement sees it.
            if connection.execute(draining.node_at_work(), values).first() is not None:
                return False
            connection.execute(draining.unplace_node(), values)
            return True

    return retrying(move)


def unpin_drained(database: Database) -> Sequence[str]:
    """Let calls go to any host whose conversation a drained host does not go on with; the runs they belong to."""

    def unpin() -> Sequence[str]:
        with database.transaction() as connection:
            rows = connection.execute(draining.pinned_away()).all()
            if rows:
                calls = [row.call_id for row in rows]
                connection.execute(losing.unpin(), {"calls": calls})
                announce(connection, calls)
            return sorted({row.run_id for row in rows})

    return retrying(unpin)


def report_disk(database: Database, host: str, used_bytes: int) -> None:
    """Say what the runs take on this host's disk."""

    def put() -> None:
        with database.statement() as connection:
            connection.execute(draining.report_disk(), {"host": host, "bytes": used_bytes})

    retrying(put)

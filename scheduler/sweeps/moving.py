"""Move the idle nodes of draining hosts.

Between two calls of a lane a node is idle for a moment: it moves only when nothing
happened on it between two looks, a while apart on our own clock, so that a conversation
that goes on at once stays where it is.
Source: rules of the protocol, 12.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.base.log import get_logger
from shared.journal import draining
from shared.journal.database import Database
from shared.journal.draining import IdleNode

log = get_logger()


class MoveNodes:
    """The sweep over draining hosts.

    Args:
        idle_seconds: how long a node has to be seen idle.
        tell: wakes whoever drives or follows a run.
    """

    name = "moving"

    def __init__(self, database: Database, idle_seconds: float, tell: Callable[[str], None]) -> None:
        self._database = database
        self._idle_seconds = idle_seconds
        self._tell = tell
        self._idle_since: dict[IdleNode, float] = {}

    def pass_once(self) -> int:
        """Move what has been idle long enough.

        Returns:
            How many nodes and calls were moved.
        """
        now = time.monotonic()
        # A node that is not listed any more, or with another mark, has been worked on: it starts from the beginning.
        self._idle_since = {node: self._idle_since.get(node, now) for node in draining.idle_nodes(self._database)}
        moved = 0
        for node, since in list(self._idle_since.items()):
            if now - since >= self._idle_seconds and draining.move_node(self._database, node):
                log.info("node_moved", run=node.run_id, node=node.node_id, host=node.host)
                moved += 1
        runs = draining.unpin_drained(self._database)
        for run in runs:
            self._tell(run)
        return moved + len(runs)

    def forget(self) -> None:
        """A look failed: nothing counts as seen."""
        self._idle_since.clear()

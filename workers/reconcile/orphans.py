"""Put aside what a creation without an answer left: a thread of the call that nobody will send a turn to.

Only a thread that carries the call's mark, stands in its directory and has no turn of its
own is an orphan. It has no effect, so that it cannot be put aside changes nothing.
Source: App Server document (the host side of reconcile).
"""

from __future__ import annotations

from shared.base.errors import HostError
from shared.base.log import get_logger
from workers.appserver import AppServerConnection
from workers.reconcile.creations import find_creations

log = get_logger()


def archive_orphans(connection: AppServerConnection, marks: str, cwd: str, used: str, through_turn: str | None) -> int:
    """Archive the call's other threads at `cwd` that have no turn of their own.

    Args:
        used: the thread that the call goes on in.
        through_turn: the newest turn that a fork of the call begins with.

    Returns:
        How many were put aside.
    """
    put_aside = 0
    try:
        for creation in find_creations(connection, marks, cwd):
            newest = creation.turns[0].id if creation.turns else None
            if creation.thread.id == used or newest not in (None, through_turn):
                continue
            connection.threads.archive(creation.thread.id)
            log.info("orphan_archived", thread=creation.thread.id, source=creation.thread.source)
            put_aside += 1
    except HostError as error:
        log.info("orphans_not_archived", why=str(error))
    return put_aside

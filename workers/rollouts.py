"""Remove what the App Server keeps of a run's conversations: the rollouts of its threads in this host's Codex home.

A thread is its own run's, named in the run's rows and marked with the run. A run that was
forked from it names it too, and may go on in a fork of it: as long as such a run is in
use the threads stay. What is still to be removed then, or when no server can be had, is
remembered by the run's directory, which stays, empty; whoever cleans next tries again.
Source: rules of the protocol, 39.
"""

from __future__ import annotations

from shared.base.errors import CrwError, StoreError
from shared.base.log import get_logger
from shared.journal import retention
from shared.journal.removals import GoOn
from workers.worker import Worker
from workers.worktrees.allocator import run_directory

# A farm that keeps everything: no fork is ever out of use.
_FOR_EVER_DAYS = 36_500.0
log = get_logger()


def remove_threads(worker: Worker, run_id: str, go_on: GoOn) -> bool:
    """Remove the threads that an ended run made on this host; its directories are gone already.

    Args:
        go_on: of the removal that this is a part of: while it holds, no fork of the run comes into being.

    Returns:
        False when some stay for another time.

    Raises:
        StoreError, also from `go_on`. OSError: the run's directory cannot be made.
    """
    threads = retention.threads_made(worker.database, run_id, worker.host)
    if not threads:
        return True
    days = worker.settings.retention_days or _FOR_EVER_DAYS
    if not retention.has_forks_in_use(worker.database, run_id, days) and _delete(worker, run_id, threads, go_on):
        return True
    run_directory(worker.settings.state_dir, run_id).mkdir(parents=True, exist_ok=True)
    return False


def _delete(worker: Worker, run_id: str, threads: list[str], go_on: GoOn) -> bool:
    try:
        connection = worker.appserver.connection()
        # The newest first: the server keeps a thread as long as there is a fork of it.
        for thread in reversed(threads):
            go_on()
            connection.threads.delete(thread)
    except StoreError:
        raise
    except CrwError as error:
        log.info("threads_not_removed", run=run_id, why=str(error))
        return False
    log.info("threads_removed", run=run_id, threads=len(threads))
    return True

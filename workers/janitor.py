"""The host's duty to remove what runs left that ended long ago, to keep its mirrors small, and to say what runs take.

Level triggered: a pass looks at what is there, so one that failed costs a period. What
goes are means (worktrees, checkouts, refs and threads of the run); the target branches are the
user's and the rows are the journal's. A run that the journal does not know is left
alone: it may be another farm's.
Source: rules of the protocol, 39.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from shared.base.errors import CrwError, StoreError
from shared.base.ids import RunId, is_run_id
from shared.base.log import get_logger
from shared.hub.deletion import delete_run_refs
from shared.journal import draining, retention, serving
from shared.journal.removals import GoOn, removing
from workers.rollouts import remove_threads
from workers.worker import Worker
from workers.worktrees.clean import clean_host, runs_here
from workers.worktrees.maintenance import maintain_mirrors

_PERIOD_SECONDS = 600.0
_HUBS_A_PASS = 20
log = get_logger()


class Janitor:
    """The janitor of one host."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def loop(self) -> None:
        """Clean up now and then until the worker stops."""
        while True:
            try:
                self.pass_once()
            except (StoreError, SQLAlchemyError) as error:
                log.debug("janitor_waits", why=str(error))
            except Exception:
                log.exception("janitor_broke")
            if self._worker.stopping.wait(_PERIOD_SECONDS):
                return

    def pass_once(self) -> int:
        """One pass; how many runs something was removed of."""
        worker = self._worker
        days = worker.settings.retention_days
        removed = self._clean_here(days) + self._clean_hubs(days) if days else 0
        maintain_mirrors(worker.mirrors)
        used = disk_use(worker.settings.state_dir / "flow")
        draining.report_disk(worker.database, worker.host, used)
        if days:
            serving.drop_generations(worker.database, worker.host, days)
        return removed

    def _clean_here(self, days: float) -> int:
        worker = self._worker
        here = runs_here(worker.mirrors, worker.settings.state_dir)
        done = 0
        for run in retention.expired_runs(worker.database, filter(is_run_id, here), days):
            try:
                hub = worker.load_spec(run).hub
                with self._removing(run, f"host {worker.host}", days) as go_on:
                    clean_host(worker.mirrors, worker.settings.state_dir, hub, run, go_on)
                    whole = remove_threads(worker, run, go_on)
            except (CrwError, OSError) as error:
                log.warning("not_cleaned", run=run, why=str(error))
                continue
            if whole:
                log.info("cleaned", run=run)
            done += whole
        return done

    def _removing(self, run: str, place: str, days: float) -> AbstractContextManager[GoOn]:
        """Looked at once more at a run's turn: those before it can take long, and it may be resumed since."""
        return removing(self._worker.database, run, place, worker=self._worker.incarnation.worker_id, days=days)

    def _clean_hubs(self, days: float) -> int:
        worker, done = self._worker, 0
        for run in retention.hubs_to_clean(worker.database, worker.incarnation.worker_id, days, _HUBS_A_PASS):
            try:
                hub = worker.load_spec(run).hub
                with self._removing(run, "hub", days) as go_on:
                    delete_run_refs(worker.mirrors.git, hub, RunId(run), go_on)
                    retention.hub_cleaned(worker.database, run)
            except (CrwError, OSError) as error:
                # Another host may reach it, or this one another time.
                log.debug("hub_not_cleaned", run=run, why=str(error))
                continue
            log.info("hub_cleaned", run=run)
            done += 1
        return done


def disk_use(directory: Path) -> int:
    """Bytes that the files below a directory take; what vanishes meanwhile counts nothing."""
    total, waiting = 0, [directory]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
    return total

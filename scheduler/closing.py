"""End a cancelled run that nobody drives: what its scheduler would do, from the command itself.

The run's free lease is taken by compare-and-swap with a higher epoch, so of any
number of commands and schedulers one ends the run, with one row. Whoever took it
beats like a scheduler: a command that is killed leaves a run that the next one takes.
Source: journal document, "Persistence"; rules of the protocol, 27 and 28.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from scheduler.flow.ending import CANCELLED, recorded_end
from scheduler.last_calls import end_lost, tell_waiting, was_told
from scheduler.lease import Lease
from shared.base.errors import RightLost
from shared.journal import run_leases, runs
from shared.journal.append import JournalWriter, RunLease, RunRows
from shared.journal.database import Database
from shared.journal.open_calls import open_calls
from shared.journal.read import load_lean
from shared.journal.roster import list_schedulers
from shared.journal.stopping import give_up
from shared.model.rows import EventRow, NewEventRow, Row

_LOOK_SECONDS = 0.25
_GIVE_UP_SECONDS = 5.0


class Closer:
    """A process that may take and end cancelled runs. Registers when it is first needed; close it."""

    def __init__(self, database: Database, lease_seconds: float, tell: Callable[[str], None]) -> None:
        """Prepare.

        Args:
            tell: wakes whoever follows a run.
        """
        self._database = database
        self._lease_seconds = lease_seconds
        self._tell = tell
        self._lease: Lease | None = None
        self._writer: JournalWriter | None = None

    def take(self, run_id: str) -> RunLease | None:
        """The run, when its lease is free: it is queued or set aside, or its scheduler is gone or silent."""
        state = runs.run_state(self._database, run_id)
        if state is None or state.state == "ended" or (state.state == "running" and self._is_alive(state.scheduler_id)):
            return None
        if self._lease is None:
            self._lease = Lease(self._database, self._lease_seconds, lambda: None)
            self._lease.start()
        return run_leases.take_stopped(self._database, run_id, self._lease.scheduler_id)

    def close_run(self, lease: RunLease, deadline: float) -> bool:
        """End a run that was taken, once none of its calls is at work.

        Args:
            deadline: on the monotonic clock; then the calls of silent hosts are given up.

        Returns:
            False when living workers still have calls of it: it is queued, for the scheduler that comes.

        Raises:
            StoreError: the database went away.
        """
        self._writer = self._writer or JournalWriter(self._database, give_up_seconds=_GIVE_UP_SECONDS)
        try:
            return self._close(lease, deadline)
        except RightLost:
            # Somebody else ends it: this one was silent for too long.
            return False

    def close(self) -> None:
        """Stop beating; a run that was not ended is free at once."""
        if self._writer is not None:
            self._writer.close()
        if self._lease is not None:
            self._lease.stop()
            run_leases.give_back(self._database, self._lease.scheduler_id)

    def _is_alive(self, scheduler_id: str | None) -> bool:
        return any(one.alive and one.scheduler_id == scheduler_id for one in list_schedulers(self._database))

    def _close(self, lease: RunLease, deadline: float) -> bool:
        rows = load_lean(self._database, lease.run_id)
        # A run whose script was over ends as it was to end, and names no ops: nobody had asked for a stop.
        told = was_told(rows) or recorded_end(rows) is not None
        gave_up = False
        while calls := open_calls(self._database, lease.run_id):
            assert self._lease is not None
            self._lease.tick()
            if any(call.state == "open" for call in calls):
                self._write(RunRows(lease, withdraw=True))
                continue
            if not told:
                tell_waiting(self._database, lease.run_id, lambda row: self._write(RunRows(lease, events=(row,))))
            told = True
            if ended := end_lost(self._database, lease.run_id, calls):
                self._write(RunRows(lease, ended=ended))
                continue
            if time.monotonic() >= deadline:
                if gave_up:
                    return False
                gave_up = True
                give_up(self._database, lease.run_id)
                continue
            time.sleep(min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        self._write(RunRows(lease, events=(_finished(rows),), finish=True))
        self._tell(lease.run_id)
        return True

    def _write(self, rows: RunRows) -> None:
        assert self._writer is not None
        self._writer.submit(rows).result()


def _finished(rows: Iterable[Row]) -> NewEventRow:
    """The end row of a run that no process held: as its script had ended, else cancelled.

    `dead` records what was seen under the lease, nothing is read from it. The farm keeps no
    executions or slots apart from its claims, which end with their calls: both counts are 0.
    """
    rows = list(rows)
    kinds = {row.kind for row in rows if isinstance(row, EventRow)}
    return (recorded_end(rows) or CANCELLED).row(dead="started" in kinds, executions_closed=0, slots_returned=0)

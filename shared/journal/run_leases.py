"""Who drives a run: one scheduler at a time, under a lease.

A run's lease is a scheduler with an epoch: a take raises the epoch, and rows under an
old one are refused. A scheduler that stops in order gives its runs back; a run that was
taken over three times from dead schedulers without progress is quarantined, not taken.
Source: journal document, "Persistence"; rules of the protocol 24, 47, 48.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from shared.base.errors import RightLost
from shared.journal.database import Database, retrying
from shared.journal.members import RunLease
from shared.journal.meta import require_writer
from shared.journal.queries import running
from shared.model.spec import FORMAT

TAKES_BEFORE_QUARANTINE = 3


@dataclass(frozen=True)
class TakenRun:
    """A run a scheduler now drives.

    Shape: `takes` counts takes from dead schedulers without progress, this one included;
    `resumes` how often somebody asked for a resume: one more than its `started` rows
    tell of is one that nobody has begun.
    """

    run_id: str
    lease: RunLease
    stop: str | None
    takes: int
    resumes: int = 0


def take(database: Database, scheduler_id: str, limit: int, *, driven: Collection[str] | None = None) -> list[TakenRun]:
    """Take up to `limit` runs that nobody drives, the oldest first.

    Args:
        driven: the runs that the taker knows it has. Others that are its own by the journal were taken by a
            transaction whose answer was lost: it takes them once more.

    Raises:
        RightLost: this scheduler was declared dead, or is draining.
        SchemaMismatch: rows are to come from newer programs only.
    """

    def take_runs() -> list[TakenRun]:
        with database.transaction() as connection:
            taker = connection.execute(running.taker(), {"scheduler": scheduler_id}).first()
            if taker is None:
                raise RightLost(f"scheduler {scheduler_id} is not up any more and takes no run")
            require_writer(taker.min_writer)
            wanted = {"limit": limit, "version": min(taker.version, FORMAT), "scheduler": scheduler_id}
            wanted |= {"driven": None if driven is None else list(driven)}
            rows = connection.execute(running.runs_to_take(), wanted).all()
            taken = [_take(connection, scheduler_id, row) for row in rows]
            return [run for run in taken if run is not None]

    return retrying(take_runs)


def _take(connection: Connection, scheduler_id: str, row: Any) -> TakenRun | None:
    takes = row.takes_without_progress + int(row.of_dead)
    if takes >= TAKES_BEFORE_QUARANTINE:
        connection.execute(running.quarantine_run(), {"run": row.run_id, "takes": takes})
        return None
    given = {"scheduler": scheduler_id, "run": row.run_id, "takes": takes}
    run = connection.execute(running.take_run(), given).one()
    lease = RunLease(run.run_id, scheduler_id, run.lease_epoch, run.sched_rows)
    return TakenRun(run.run_id, lease, run.stop, takes, run.resumes)


def take_stopped(database: Database, run_id: str, scheduler_id: str) -> RunLease | None:
    """Take one cancelled run in order to end it, whatever its state, if its lease is free; None when it is not."""

    def take_run() -> RunLease | None:
        with database.statement() as connection:
            state = connection.execute(running.run_state(), {"run": run_id}).first()
            if state is None:
                return None
            asked = {"run": run_id, "scheduler": scheduler_id, "epoch": state.lease_epoch, "version": FORMAT}
            row = connection.execute(running.take_stopped_run(), asked).first()
            return RunLease(row.run_id, scheduler_id, row.lease_epoch, row.sched_rows) if row else None

    return retrying(take_run)


def take_handed(database: Database, scheduler_id: str, run_id: str, holder_id: str, epoch: int) -> TakenRun | None:
    """Take the run that another live scheduler hands over; None when that has it no more.

    Args:
        holder_id, epoch: the lease it is handed over from.
    """

    def take_run() -> TakenRun | None:
        with database.transaction() as connection:
            if connection.execute(running.taker(), {"scheduler": scheduler_id}).scalar() is None:
                raise RightLost(f"scheduler {scheduler_id} is not up any more and takes no run")
            asked = {
                "run": run_id, "scheduler": scheduler_id, "holder": holder_id, "epoch": epoch, "version": FORMAT,
            }  # fmt: skip
            row = connection.execute(running.take_handed_run(), asked).first()
            if row is None:
                return None
            lease = RunLease(row.run_id, scheduler_id, row.lease_epoch, row.sched_rows)
            return TakenRun(row.run_id, lease, row.stop, row.takes_without_progress, row.resumes)

    return retrying(take_run)


def give_back(database: Database, scheduler_id: str) -> list[str]:
    """A scheduler ends in order: its runs are queued again. Returns their ids."""

    def give() -> list[str]:
        with database.transaction() as connection:
            connection.execute(running.stop_scheduler(), {"scheduler": scheduler_id})
            runs = connection.execute(running.runs_to_give_back(), {"scheduler": scheduler_id}).scalars().all()
            connection.execute(running.queue_runs(), {"runs": list(runs)})
            return list(runs)

    return retrying(give)


def let_go(database: Database, lease: RunLease, *, broke: bool) -> None:
    """Queue one run again that its scheduler cannot drive on.

    Args:
        broke: it was the run that broke: counts as a take without progress, so that the third time is quarantine.
    """

    def give() -> None:
        with database.statement() as connection:
            connection.execute(
                running.let_go_run(),
                {"run": lease.run_id, "scheduler": lease.scheduler_id, "epoch": lease.epoch, "broke": int(broke)},
            )

    retrying(give)

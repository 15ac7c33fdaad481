"""Runs: submitted once, driven by one scheduler at a time, stopped by anybody.

A run's identity is stored at submit and never updated. Its lease is a scheduler
with an epoch: a take raises the epoch, and rows under an old one are refused.
States: queued -> running -> ended; a scheduler that stops in order gives its runs
back to queued; a run taken over three times from dead schedulers without a new
position or a terminal row is quarantined.
Source: journal document, "Persistence"; rules of the protocol 24, 28, 47, 48.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from shared.base.canonical import from_storable
from shared.base.errors import RightLost, StoreError
from shared.journal.database import Database, retrying
from shared.journal.members import RunLease
from shared.journal.meta import require_writer
from shared.journal.queries import running
from shared.journal.submit import Submitted, submit
from shared.journal.tables import flow_sources, flow_specs
from shared.model.spec import FORMAT, RunSpec

__all__ = [
    "Reopened",
    "RunState",
    "Stopped",
    "Submitted",
    "TakenRun",
    "give_back",
    "let_go",
    "list_runs",
    "load_source",
    "load_spec",
    "poll",
    "reopen",
    "run_state",
    "set_stop",
    "submit",
    "take",
    "take_handed",
    "take_stopped",
]

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


@dataclass(frozen=True)
class RunState:
    """A run as it stands. `end` is the data of its end row, in `list_runs` only."""

    run_id: str
    run_key: str | None
    workflow: str
    state: str
    stop: str | None
    scheduler_id: str | None
    lease_epoch: int
    next_seq: int
    max_turns: int | None
    turns_sent: int
    host_label: str | None
    takes_without_progress: int
    submitted_at: datetime
    ended_at: datetime | None
    resumes: int = 0
    end: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Reopened:
    """A run that is to be resumed, with the identity that its record keeps; `next_seq` where its new rows begin."""

    run_id: str
    plan_id: str | None
    plan_revision: int | None
    actor_task: str | None
    epoch_nonce: str | None
    resumes_run: str | None
    next_seq: int


@dataclass(frozen=True)
class Stopped:
    """A run whose `stop` is set: its state then, which stop counts, and who drives it."""

    state: str
    stop: str
    scheduler_id: str | None


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
            asked = {"run": run_id, "scheduler": scheduler_id, "epoch": state.lease_epoch}
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
            asked = {"run": run_id, "scheduler": scheduler_id, "holder": holder_id, "epoch": epoch}
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


def set_stop(database: Database, run_id: str, how: str) -> Stopped | None:
    """Set `stop` (pause or cancel): from its commit on no intent of the run commits. None: no such run, or ended."""

    def stop() -> Stopped | None:
        with database.statement() as connection:
            row = connection.execute(running.stop_run(), {"run": run_id, "how": how}).first()
            return Stopped(**row._mapping) if row else None

    return retrying(stop)


def reopen(database: Database, state: RunState) -> Reopened | None:
    """Queue a run again that ended, was set aside or was paused, as it stood in `state`.

    Of any number of callers one does it. What the run is comes from its record, never from the caller.

    Returns:
        None when somebody drives it, is to drive it or is stopping it.
    """

    def queue() -> Reopened | None:
        with database.statement() as connection:
            asked = {"run": state.run_id, "before": state.resumes}
            row = connection.execute(running.reopen_run(), asked).first()
            return Reopened(**row._mapping) if row else None

    return retrying(queue)


def poll(database: Database, seen: Mapping[str, int]) -> list[tuple[str, int, str | None]]:
    """`(run id, next seq, stop)` of the runs that have rows beyond the newest seq seen, or a stop."""

    def look() -> list[tuple[str, int, str | None]]:
        with database.statement() as connection:
            asked = {"runs": list(seen), "seen": list(seen.values())}
            return [tuple(row) for row in connection.execute(running.poll_runs(), asked)]

    return retrying(look) if seen else []


def run_state(database: Database, run_id: str) -> RunState | None:
    """The run as it stands, or None."""

    def read() -> RunState | None:
        with database.statement() as connection:
            row = connection.execute(running.run_state(), {"run": run_id}).first()
            return RunState(**row._mapping) if row else None

    return retrying(read)


def list_runs(database: Database, limit: int = 100, state: str | None = None) -> list[RunState]:
    """Runs, newest first."""

    def read() -> list[RunState]:
        with database.statement() as connection:
            rows = connection.execute(running.list_runs(), {"limit": limit, "state": state}).mappings().all()
        return [_run_state(dict(row)) for row in rows]

    return retrying(read)


def _run_state(row: dict[str, Any]) -> RunState:
    end_json = row.pop("end_json")
    end = None if end_json is None else {k: v for k, v in from_storable(end_json).items() if not k.startswith("_")}
    return RunState(**row, end=end)


def load_spec(database: Database, run_id: str) -> RunSpec:
    """What the run was submitted with.

    Raises:
        StoreError: no such run.
    """

    def read() -> RunSpec:
        with database.statement() as connection:
            stored = connection.execute(select(flow_specs.c.spec_json).where(flow_specs.c.run_id == run_id)).scalar()
        if stored is None:
            raise StoreError(f"there is no run {run_id}", run=run_id)
        return RunSpec.from_json(from_storable(stored))

    return retrying(read)


def load_source(database: Database, digest: str) -> bytes:
    """A source file by its sha-256.

    Raises:
        StoreError: it is not stored.
    """

    def read() -> bytes:
        with database.statement() as connection:
            data = connection.execute(select(flow_sources.c.bytes).where(flow_sources.c.digest == digest)).scalar()
        if data is None:
            raise StoreError(f"there is no source file with digest {digest}", digest=digest)
        return bytes(data)

    return retrying(read)

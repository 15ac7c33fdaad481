"""Runs as everybody sees them: how one stands, what it was submitted with, its stop and its reopening.

A run's identity is stored at submit and never updated. States: queued -> running ->
ended; a scheduler that stops in order gives its runs back to queued; a run taken over
three times from dead schedulers without a new position or a terminal row is quarantined.
Source: journal document, "Persistence"; rules of the protocol 24, 28, 47, 48.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select

from shared.base.canonical import from_storable
from shared.base.errors import SchemaMismatch, StoreError
from shared.journal.database import Database, retrying
from shared.journal.queries import running
from shared.journal.removals import lock_against_removal
from shared.journal.tables import flow_sources, flow_specs
from shared.model.spec import FORMAT, RunSpec


@dataclass(frozen=True)
class RunState:
    """A run as it stands.

    Shape: `cleaned_at` when somebody last began to remove what the run had left; `end` the data of its end row, in
    `list_runs` only.
    """

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
    cleaned_at: datetime | None = None
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
        None when somebody drives it, is to drive it, is stopping it, removes what it left, or has begun to since.
    """

    def queue() -> Reopened | None:
        with database.transaction() as connection:
            if lock_against_removal(connection, state.run_id):
                return None
            asked = {"run": state.run_id, "before": state.resumes, "cleaned": state.cleaned_at}
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
        SchemaMismatch: the run's format is newer than this program's: it would misread the spec, and the rows.
    """

    def read() -> RunSpec:
        with database.statement() as connection:
            stored = connection.execute(select(flow_specs.c.spec_json).where(flow_specs.c.run_id == run_id)).scalar()
        if stored is None:
            raise StoreError(f"there is no run {run_id}", run=run_id)
        spec = from_storable(stored)
        if spec["format"] > FORMAT:
            raise SchemaMismatch(
                f"run {run_id} has format {spec['format']}, and this program reads up to {FORMAT}: use the newer "
                "program that made the run",
                run=run_id,
            )
        return RunSpec.from_json(spec)

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

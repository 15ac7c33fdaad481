"""Who is on the farm, as commands and checks show it: hosts with their newest worker, schedulers. Read-only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from shared.journal.database import Database, retrying
from shared.journal.queries import farm


@dataclass(frozen=True)
class HostState:
    """A host as `crw host ls` shows it: its newest worker, its claims, its nodes of unfinished runs.

    Shape: `silent_seconds` since its newest worker's lease ran out, negative while it runs, None without a
    worker; `run_bytes` what runs take on its disk, as it last looked; None before the first look.
    """

    host: str
    state: str
    machine: str
    labels: list[str]
    host_id: str
    worker_id: str | None
    worker_state: str | None
    slots: int | None
    codex_version: str | None
    version: int | None
    free_bytes: int | None
    min_free_bytes: int | None
    pid: int | None
    started_at: datetime | None
    lease_until: datetime | None
    looked_at: datetime | None
    lease_seconds: float | None
    account: str | None
    alive: bool
    claimed: int
    stranded: int
    nodes: int
    run_bytes: int | None = None
    silent_seconds: float | None = None


def list_hosts(database: Database) -> list[HostState]:
    """All hosts the farm knows, by name."""

    def read() -> list[HostState]:
        with database.statement() as connection:
            return [HostState(**row._mapping) for row in connection.execute(farm.list_hosts())]

    return retrying(read)


def find_host(database: Database, name: str) -> HostState | None:
    """The host of this name."""
    return next((host for host in list_hosts(database) if host.host == name), None)


@dataclass(frozen=True)
class SchedulerState:
    """A scheduler that did not end in order. Shape: `alive` while it holds its lease."""

    scheduler_id: str
    machine: str
    pid: int
    started_at: datetime
    alive: bool


def list_schedulers(database: Database) -> list[SchedulerState]:
    """The schedulers that live or died, the newest first."""

    def read() -> list[SchedulerState]:
        with database.statement() as connection:
            return [SchedulerState(**row._mapping) for row in connection.execute(farm.list_schedulers())]

    return retrying(read)

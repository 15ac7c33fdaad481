"""The App Servers of hosts, one row a process, and what the accounts of hosts have left.

For people: nothing decides by it.

Source: definition of host-side records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from shared.journal.database import Database, retrying
from shared.journal.queries import serving


@dataclass(frozen=True)
class Began:
    """An App Server that was started. Shape: `pid_started` is the kernel's time of its process."""

    generation: str
    pid: int
    pid_started: str
    codex_path: str
    codex_version: str


@dataclass(frozen=True)
class Limit:
    """A window of an account. Shape: `limit_id` names it; `resets_at` seconds since 1970."""

    limit_id: str
    used_percent: float
    window_minutes: int | None
    resets_at: float | None


@dataclass(frozen=True)
class ServerState:
    """The newest App Server of a host. Shape: `reason` why it ended, if anybody saw that."""

    host: str
    generation: str
    pid: int
    codex_path: str
    codex_version: str
    started_at: datetime
    ended_at: datetime | None
    reason: str | None
    up: bool


@dataclass(frozen=True)
class LimitState:
    """What the account of a host has used of a window, as last heard."""

    host: str
    limit_id: str
    used_percent: float
    window_minutes: int | None
    resets_at: datetime | None
    observed_at: datetime


def generation_began(database: Database, host: str, worker_id: str, boot_id: str, began: Began) -> None:
    """Note a start. Raises StoreUnavailable."""
    asked = {
        "generation": began.generation, "host": host, "worker": worker_id, "pid": began.pid,
        "pid_started": began.pid_started, "boot": boot_id, "path": began.codex_path, "version": began.codex_version,
    }  # fmt: skip
    with database.statement() as connection:
        connection.execute(serving.generation_began(), asked)


def generation_ended(database: Database, generation: str, reason: str) -> None:
    """Note an end. Raises StoreUnavailable."""
    with database.statement() as connection:
        connection.execute(serving.generation_ended(), {"generation": generation, "reason": reason})


def end_generations_of_the_dead(database: Database, host: str, worker_id: str) -> None:
    """Note that nothing runs any more of what earlier workers of the host had. Raises StoreUnavailable."""
    with database.statement() as connection:
        connection.execute(serving.generations_of_the_dead(), {"host": host, "worker": worker_id})


def limits_seen(database: Database, host: str, limits: Iterable[Limit]) -> None:
    """Note what the host's account has used. Raises StoreUnavailable."""
    with database.transaction() as connection:
        for limit in sorted(limits, key=lambda limit: limit.limit_id):
            asked = {
                "host": host, "limit": limit.limit_id, "used": limit.used_percent, "minutes": limit.window_minutes,
                "resets": limit.resets_at,
            }  # fmt: skip
            connection.execute(serving.limit_seen(), asked)


def drop_generations(database: Database, host: str, days: float) -> int:
    """Forget App Servers of the host that ended more than `days` ago; how many."""

    def drop() -> int:
        with database.statement() as connection:
            return int(connection.execute(serving.drop_generations(), {"host": host, "days": days}).rowcount)

    return retrying(drop)


def list_servers(database: Database) -> dict[str, ServerState]:
    """Host -> its newest App Server."""

    def read() -> dict[str, ServerState]:
        with database.statement() as connection:
            return {row.host: ServerState(**row._mapping) for row in connection.execute(serving.newest_generations())}

    return retrying(read)


def list_limits(database: Database) -> dict[str, list[LimitState]]:
    """Host -> the windows of its account that have not been reset since, the fullest first."""

    def read() -> dict[str, list[LimitState]]:
        found: dict[str, list[LimitState]] = {}
        with database.statement() as connection:
            for row in connection.execute(serving.limits_now()):
                found.setdefault(row.host, []).append(LimitState(**row._mapping))
        return found

    return retrying(read)

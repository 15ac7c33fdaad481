"""Hosts and their incarnations: who exists, who lives, who was declared dead.

A host is a state directory with a name; one live worker incarnation at most. A
worker lives as long as it beats within its lease, by the database's clock. A lease
that ran out is a suspicion; a sweeper that sees the same beat expired twice, one
lease apart on its own clock, buries the worker: its unsent calls are open again,
its sent ones stranded on the host. The next incarnation on the host holds the lock
on the state directory, which proves the old one gone, and frees at once.
Source: rules of the protocol 5, 6, 11, 21, 22, 30.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from shared.base.errors import UsageError
from shared.journal.database import Database, retrying
from shared.journal.freeing import Freed, free
from shared.journal.queries import claiming, farm, losing
from shared.journal.stripping import strip_host


@dataclass(frozen=True)
class Identity:
    """A worker incarnation. Shape: `host_id` is the state directory's own id, `home_id` its Codex home's,
    `account` a digest of the login (None: no login), `machine` the machine's name, `version` the newest run format."""

    worker_id: str
    host: str
    host_id: str
    home_id: str | None
    pid: int
    pid_started: str
    boot_id: str
    machine: str
    labels: tuple[str, ...]
    slots: int
    version: int
    codex_version: str | None
    account: str | None
    lease_seconds: float
    min_free_bytes: int = 0


@dataclass(frozen=True)
class Beat:
    """A heartbeat that was taken. `state` is up or draining; the lease holds until `lease_until`."""

    beat: int
    state: str
    lease_until: datetime
    lease_seconds: float


@dataclass(frozen=True)
class Suspect:
    """A worker or scheduler whose lease ran out at this beat."""

    worker_id: str
    beat: int
    lease_seconds: float


def register(database: Database, identity: Identity) -> list[Freed]:
    """Enter a new incarnation; the caller holds the lock on the state directory.

    The host's earlier incarnations are dead by that lock: their calls are freed first.

    Raises:
        UsageError: the host's name belongs to another state directory, its worker beats on another machine,
            or another host has the same login.
    """

    def enter() -> list[Freed]:
        with database.transaction() as connection:
            return _register(connection, identity)

    return retrying(enter)


def _register(connection: Connection, identity: Identity) -> list[Freed]:
    values: dict[str, Any] = {**asdict(identity), "labels": list(identity.labels)}
    known = connection.execute(losing.host_to_change(), values).first()
    host = connection.execute(farm.host_to_register(), values).one()
    if host.host_id != identity.host_id:
        raise UsageError(
            f"the host name {identity.host} belongs to another state directory; set CRW_HOST_NAME to a name of its "
            "own, or CRW_STATE_DIR to the host's own directory; if that one is gone, give it up with "
            f"'crw host lost {identity.host}' and start again",
            host=identity.host,
        )
    if identity.account is not None:
        other = connection.execute(farm.same_account(), values).scalar()
        if other is not None:
            raise UsageError(
                f"the login of this host is used by host {other} too; log in with an account of its own "
                "(`crw host login`)",
                host=identity.host,
                other=other,
            )
    living = connection.execute(farm.live_workers_of_host(), values).all()
    if any(worker.worker_id == identity.worker_id for worker in living):
        return []  # an earlier try was stored, its answer was lost
    for worker in living:
        # The lock proves something on one machine only: a copied directory elsewhere is another host.
        if worker.machine != identity.machine and worker.beating:
            raise UsageError(
                f"host {identity.host} has a living worker on machine {worker.machine}; stop it, or give this "
                "machine a host name and a state directory of its own",
                host=identity.host,
            )
    ended = [worker.worker_id for worker in living]
    connection.execute(farm.end_workers(), {"workers": ended, "state": "dead"})
    if known is not None and known.state == "lost":
        # Given up, it is a new host under its old name: nothing that was its own is, whatever was bound to it since.
        strip_host(connection, identity.host)
        connection.execute(losing.set_host_state(), {**values, "state": "up"})
    with_claims = connection.execute(farm.workers_of_host(), values).scalars().all()
    freed = _free(connection, sorted({*ended, *with_claims}))
    connection.execute(farm.new_worker(), values)
    return freed


def _free(connection: Connection, workers: list[str], *, crashes: int = 1) -> list[Freed]:
    if not workers:
        return []
    calls = connection.execute(claiming.claims_of_workers(), {"workers": workers}).scalars().all()
    return free(connection, calls, crashes=crashes)


def beat(
    connection: Any,
    worker_id: str,
    free_bytes: int | None,
    state: str = "up",
    *,
    look_age_seconds: float | None = None,
) -> Beat | None:
    """Renew a worker's lease. `connection` is `Database.connect_raw(statement_timeout_seconds=3)`.

    Args:
        look_age_seconds: how long ago the worker last looked for calls.

    Returns:
        None when this worker was declared dead: it has to end its App Server and itself.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            farm.BEAT, {"worker": worker_id, "free": free_bytes, "state": state, "look_age": look_age_seconds}
        )
        row = cursor.fetchone()
        return Beat(*row) if row else None


def held_by(connection: Any, worker_id: str) -> list[tuple[str, int, str]]:
    """`(call id, fence, grant id)` of what the database says this worker has; what it does not know, it releases."""
    with connection.cursor() as cursor:
        cursor.execute(farm.HELD_BY, {"worker": worker_id})
        return [tuple(row) for row in cursor.fetchall()]


def suspects(database: Database) -> list[Suspect]:
    """Workers whose lease ran out. Raises StoreUnavailable at once: a failed look must restart the sweeper's clock."""
    with database.statement() as connection:
        return [Suspect(**row._mapping) for row in connection.execute(farm.suspects())]


def bury(database: Database, worker_id: str, beat: int) -> list[Freed]:
    """Declare a worker dead that is still silent since `beat`, and free its calls; nothing when it lives."""

    def sweep() -> list[Freed]:
        with database.transaction() as connection:
            silent = {"worker": worker_id, "beat": beat}
            if connection.execute(farm.worker_to_bury(), silent).first() is None:
                return []
            connection.execute(farm.end_workers(), {"workers": [worker_id], "state": "dead"})
            return _free(connection, [worker_id])

    return retrying(sweep)


def free_dead(database: Database) -> list[Freed]:
    """Free what any dead or stopped worker still holds: run at every pass, whatever made it so."""

    def sweep() -> list[Freed]:
        with database.transaction() as connection:
            return _free(connection, list(connection.execute(farm.dead_with_claims()).scalars()))

    return retrying(sweep)


def stop_worker(database: Database, worker_id: str) -> list[Freed]:
    """A worker ends in order: it is marked stopped, what it still holds is freed, and no crash is counted."""

    def stop() -> list[Freed]:
        with database.transaction() as connection:
            connection.execute(farm.end_workers(), {"workers": [worker_id], "state": "stopped"})
            return _free(connection, [worker_id], crashes=0)

    return retrying(stop)


def register_scheduler(
    database: Database, scheduler_id: str, lease_seconds: float, *, machine: str, pid: int, version: int
) -> None:
    """Enter a scheduler with a fresh lease."""

    def enter() -> None:
        with database.transaction() as connection:
            connection.execute(
                farm.new_scheduler(),
                {
                    "scheduler_id": scheduler_id, "lease_seconds": lease_seconds, "machine": machine, "pid": pid,
                    "version": version,
                },
            )  # fmt: skip

    retrying(enter)


def beat_scheduler(connection: Any, scheduler_id: str) -> Beat | None:
    """Renew a scheduler's lease on a raw connection; None when it was declared dead."""
    with connection.cursor() as cursor:
        cursor.execute(farm.BEAT_SCHEDULER, {"scheduler": scheduler_id})
        row = cursor.fetchone()
        return Beat(*row) if row else None


def suspects_schedulers(database: Database) -> list[Suspect]:
    """Schedulers whose lease ran out; raises as `suspects`."""
    with database.statement() as connection:
        return [Suspect(**row._mapping) for row in connection.execute(farm.suspect_schedulers())]


def bury_scheduler(database: Database, scheduler_id: str, beat: int) -> bool:
    """Declare a scheduler dead that is still silent since `beat`; its runs can then be taken."""

    def sweep() -> bool:
        with database.transaction() as connection:
            silent = {"scheduler": scheduler_id, "beat": beat}
            return connection.execute(farm.bury_scheduler(), silent).first() is not None

    return retrying(sweep)

"""A farm in a database: schedulers, workers, runs and calls, made by the journal's own functions."""

from __future__ import annotations

import itertools
import secrets
from typing import Any

from shared.base.canonical import digest_bytes
from shared.base.ids import call_id, request_id
from shared.journal import claims, hosts, run_leases
from shared.journal.append import Claim, EndedCall, JournalWriter, OpenCall, RunLease, RunRows
from shared.journal.database import Database
from shared.journal.submit import submit
from shared.model.roles import Role
from shared.model.rows import NewCallRow
from shared.model.spec import RunSpec

SCRIPT = b"async def main(flow, args):\n    return args\n"
_positions = itertools.count(1)


def make_spec(**changes: Any) -> RunSpec:
    """A small run spec; `changes` replace its members."""
    values: dict[str, Any] = {
        "workflow": "flow.py",
        "script": "flow.py",
        "sources": {"flow.py": digest_bytes(SCRIPT)},
        "args": {"goal": "x"},
        "hub": "/hub",
        "base": "0" * 40,
        "target": "crw/run",
        "roles": {"executor": Role("executor", "m", "low", "workspace-write", "")},
    }
    return RunSpec(**{**values, **changes})


def make_identity(host: str = "h1", **changes: Any) -> hosts.Identity:
    """A worker incarnation on a host."""
    values: dict[str, Any] = {
        "worker_id": f"w-{secrets.token_hex(4)}",
        "host": host,
        "host_id": f"id-{host}",
        "home_id": f"home-{host}",
        "pid": 1,
        "pid_started": "1",
        "boot_id": "boot",
        "machine": "m",
        "labels": (),
        "slots": 4,
        "version": 1,
        "codex_version": None,
        "account": None,
        "lease_seconds": 30.0,
    }
    return hosts.Identity(**{**values, **changes})


class Farm:
    """One database with a scheduler; makes workers, runs and calls."""

    def __init__(self, database: Database, writer: JournalWriter) -> None:
        self.database = database
        self.writer = writer
        self.scheduler = self.new_scheduler()

    def new_scheduler(self, lease_seconds: float = 30.0) -> str:
        """Register another scheduler."""
        name = f"s-{secrets.token_hex(4)}"
        hosts.register_scheduler(self.database, name, lease_seconds, machine="m", pid=1, version=1)
        return name

    def new_worker(self, host: str = "h1", **changes: Any) -> str:
        """Register an incarnation on a host and return its id."""
        identity = make_identity(host, **changes)
        hosts.register(self.database, identity)
        return identity.worker_id

    def new_run(self, **changes: Any) -> RunLease:
        """Submit a run and take it."""
        submit(self.database, make_spec(**changes), {"flow.py": SCRIPT})
        return self.take()

    def take(self, scheduler: str | None = None) -> RunLease:
        """Take the one run that is to be taken."""
        (taken,) = run_leases.take(self.database, scheduler or self.scheduler, 1)
        return taken.lease

    def opening(self, lease: RunLease, *, node: str | None = None, kind: str = "noop", **changes: Any) -> OpenCall:
        """An open of a new position."""
        position = next(_positions)
        call = call_id(lease.run_id, "main", position)
        values: dict[str, Any] = {
            "call_id": call,
            "path": "main",
            "position": position,
            "kind": kind,
            "node_id": node,
            "effect": "op",
            "request_id": request_id(lease.run_id, call),
            "attempt": 0,
            "prepared": NewCallRow("prepared", {"op": kind}),
        }
        return OpenCall(**{**values, **changes})

    def open(self, lease: RunLease, **changes: Any) -> OpenCall:
        """Open a call and return it."""
        opened = self.opening(lease, **changes)
        self.writer.submit(RunRows(lease, opens=(opened,))).result()
        return opened

    def ended(self, opened: OpenCall, row: NewCallRow) -> EndedCall:
        """A row of a call without a holder, as its run writes it."""
        return EndedCall(
            opened.call_id, opened.path, opened.position, opened.kind, opened.node_id, opened.request_id,
            opened.attempt, row,
        )  # fmt: skip

    def claim(self, worker: str, opened: OpenCall, grant: str | None = None) -> Claim:
        """Claim a call; it has to be granted."""
        granted = self.ask(worker, opened, grant)
        assert isinstance(granted, Claim), granted
        return granted

    def ask(self, worker: str, opened: OpenCall, grant: str | None = None) -> Claim | claims.Denied:
        """Ask for a call."""
        return claims.claim(
            self.database, worker, opened.call_id, opened.request_id, grant or f"g-{secrets.token_hex(4)}"
        )

    def rows(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """What a plain statement returns."""
        with self.database.statement() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement, parameters or None)]

"""One life of a worker process: its identity, its lease, its heartbeat.

The heartbeat has a thread and a direct connection of its own, so that neither a
busy pool nor a large insert can delay it into a false death. The lease that counts
here is the one this process has seen confirmed, on a clock that goes on while the
machine sleeps: past it nothing is sent, whatever the database says later.
Source: rules of the protocol, 4, 22 and 46.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg2

from shared.base.log import get_logger
from shared.base.settings import Settings
from shared.hub.machine import machine_label
from shared.journal import hosts
from shared.journal.database import Database
from shared.model.spec import FORMAT
from workers.claim import Hands
from workers.state_dir import ProcessName, StateDirectory, boot_id

_BEATS_A_LEASE = 5
_STATEMENT_TIMEOUT_SECONDS = 3
log = get_logger()


def boot_clock() -> float:
    """Seconds since boot, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Incarnation:
    """This worker on the farm, from its registration until it is stopped or declared dead."""

    def __init__(
        self,
        settings: Settings,
        state: StateDirectory,
        hands: Hands,
        *,
        codex_version: str | None = None,
        account: str | None = None,
        on_dead: Callable[[], None],
        on_orphan: Callable[[str, int, str], None],
        look_age: Callable[[], float | None] = lambda: None,
    ) -> None:
        """Prepare, without talking to anybody.

        Args:
            on_dead: called from the heartbeat when the database has declared this incarnation dead.
            look_age: seconds since the worker last looked for calls, for those who list hosts.
            on_orphan: called with `(call id, fence, grant id)` of a claim of this worker that nobody here knows.
        """
        self.state = state
        self.draining = False
        self.low_disk = False
        self._hands = hands
        self._on_dead = on_dead
        self._on_orphan = on_orphan
        self._look_age = look_age
        self._lease_seconds = settings.lease_seconds
        self._confirmed_until = 0.0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection: Any = None
        machine = machine_label()
        process = ProcessName.of(os.getpid())
        self.identity = hosts.Identity(
            worker_id=str(uuid.uuid4()),
            host=settings.host_name,
            host_id=state.host_id,
            home_id=state.home_id,
            pid=process.pid,
            pid_started=process.started,
            boot_id=boot_id(),
            machine=machine,
            labels=tuple(dict.fromkeys([*settings.labels, machine])),
            slots=settings.concurrency,
            version=FORMAT,
            codex_version=codex_version,
            account=account,
            lease_seconds=settings.lease_seconds,
            min_free_bytes=settings.min_free_bytes,
        )

    @property
    def worker_id(self) -> str:
        """This incarnation's id: the owner of its claims."""
        return self.identity.worker_id

    @property
    def host(self) -> str:
        """The host's name on the farm."""
        return self.identity.host

    def register(self, database: Database) -> None:
        """Take the host over: what an earlier incarnation held is freed first, then this one is up.

        Raises:
            UsageError: the name is another directory's, or the account another host's.
        """
        asked_at = boot_clock()
        freed = hosts.register(database, self.identity)
        self._confirmed_until = asked_at + self._lease_seconds
        log.info("registered", host=self.host, worker=self.worker_id, freed=len(freed))

    def start(self, database: Database) -> None:
        """Begin to beat, on a connection of its own to this database."""
        self._thread = threading.Thread(target=self._beat_loop, args=(database,), name="heartbeat", daemon=True)
        self._thread.start()

    def may_send(self) -> bool:
        """Whether the lease this process saw confirmed still runs: asked right before each request with an effect."""
        return boot_clock() < self._confirmed_until

    def unconfirmed_seconds(self) -> float:
        """How long ago the lease that this process saw confirmed ran out; 0 while it runs."""
        return max(0.0, boot_clock() - self._confirmed_until)

    def takes_new(self) -> bool:
        """Whether this host takes calls that have no host yet."""
        return not (self.draining or self.low_disk)

    def stop(self, database: Database) -> None:
        """Stop beating and mark this incarnation stopped: what it still holds is its successor's or everybody's."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(2 * _STATEMENT_TIMEOUT_SECONDS)
        hosts.stop_worker(database, self.worker_id)

    def _beat_loop(self, database: Database) -> None:
        silent = False
        while not self._stopped.wait(self._lease_seconds / _BEATS_A_LEASE):
            try:
                alive = self.beat(database)
            except Exception as error:  # noqa: BLE001 - a heartbeat that ended silently would be a false death
                self._forget_connection()
                if not silent:
                    log.warning("heartbeat_failed", why=str(error).strip())
                silent = True
                continue
            if silent:
                log.info("heartbeat_back")
            silent = False
            if not alive:
                log.error("declared_dead", worker=self.worker_id)
                self._on_dead()
                return
        self._forget_connection()

    def beat(self, database: Database) -> bool:
        """One beat: renew the lease, then hold the database's list of claims against what is in hand.

        Returns:
            False when the database has declared this incarnation dead.

        Raises:
            psycopg2.Error: the beat did not come through.
        """
        asked_at = boot_clock()
        free_bytes = self.state.free_bytes()
        self.low_disk = free_bytes < self.identity.min_free_bytes
        if self.low_disk:
            # What the App Server wrote meanwhile may be missing: an absence proves nothing from here on.
            self.state.mark_space_alarm()
        known = self._hands.claimed()
        if self._connection is None:
            self._connection = database.connect_raw(statement_timeout_seconds=_STATEMENT_TIMEOUT_SECONDS)
        beat = hosts.beat(self._connection, self.worker_id, free_bytes, look_age_seconds=self._look_age())
        if beat is None:
            return False
        held = hosts.held_by(self._connection, self.worker_id)
        self._confirmed_until = asked_at + self._lease_seconds
        self.draining = beat.state == "draining"
        orphans = self._hands.compare([(call, grant) for call, _, grant in held], known)
        for call, fence, grant in held:
            if grant in orphans:
                self._on_orphan(call, fence, grant)
        return True

    def _forget_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg2.Error):
                connection.close()

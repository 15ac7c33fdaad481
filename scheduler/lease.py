"""The scheduler's own lease: renewed by a thread, and only while the loop is alive.

A script that blocks the loop must not keep its scheduler's runs standing under a
living lease, so the thread looks at the loop's last tick before each beat.
Source: rules of the protocol, 24.
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

from scheduler.stall import where_it_stands
from shared.base.log import get_logger
from shared.hub.machine import machine_label
from shared.journal import hosts
from shared.journal.database import Database
from shared.model.spec import FORMAT

LOOP_SILENCE_SECONDS = 10.0
_BEATS_A_LEASE = 5
_STATEMENT_TIMEOUT_SECONDS = 3
# Leases without a sign of the loop, behind the silence it is granted, after which it does not come back.
_BLOCKED_LEASES = 2
log = get_logger()


class Lease:
    """One registration of this process as a scheduler."""

    def __init__(
        self,
        database: Database,
        lease_seconds: float,
        on_lost: Callable[[], None],
        on_blocked: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            on_lost: called from the lease's thread, once, when the database has declared this scheduler dead.
            on_blocked: called from there when the loop is silent for so long that the lease has run out: nothing
                that runs in the loop will ever hear of it.
        """
        self.scheduler_id = str(uuid.uuid4())
        self._database = database
        # A connection that nobody else uses: no other query can delay a beat.
        self._connection: Any = None
        self._lease_seconds = lease_seconds
        self._on_lost = on_lost
        self._on_blocked = on_blocked
        self._ticked_at = time.monotonic()
        self._loop_thread = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="lease", daemon=True)

    def start(self) -> None:
        """Register and begin to beat.

        Raises:
            StoreError: the database did not take the registration.
        """
        hosts.register_scheduler(
            self._database,
            self.scheduler_id,
            self._lease_seconds,
            machine=machine_label(),
            pid=os.getpid(),
            version=FORMAT,
        )
        self._thread.start()

    def tick(self) -> None:
        """The loop is alive: called by the loop itself."""
        self._loop_thread = threading.get_ident()
        self._ticked_at = time.monotonic()

    def stop(self) -> None:
        """Stop beating."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _loop(self) -> None:
        trouble = ""
        while not self._stopped.wait(self._lease_seconds / _BEATS_A_LEASE):
            silence = time.monotonic() - self._ticked_at
            if silence > LOOP_SILENCE_SECONDS:
                if trouble != "loop":
                    log.error("loop_blocked", seconds=round(silence), at=where_it_stands(self._loop_thread))
                # At the second look: a process that was frozen as a whole finds its loop silent at its first.
                elif silence > LOOP_SILENCE_SECONDS + _BLOCKED_LEASES * self._lease_seconds:
                    self._on_blocked()
                trouble = "loop"
                continue
            try:
                alive = self._beat()
            except Exception as error:  # noqa: BLE001 - a lease that ended silently would be a false death
                self._forget_connection()
                if trouble != "store":
                    log.warning("lease_not_renewed", why=str(error).strip())
                trouble = "store"
                continue
            if not alive:
                log.error("lease_lost", scheduler=self.scheduler_id)
                self._on_lost()
                return
            if trouble:
                log.info("lease_renewed_again")
            trouble = ""
        self._forget_connection()

    def _beat(self) -> bool:
        if self._connection is None:
            self._connection = self._database.connect_raw(statement_timeout_seconds=_STATEMENT_TIMEOUT_SECONDS)
        return hosts.beat_scheduler(self._connection, self.scheduler_id) is not None

    def _forget_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg2.Error):
                connection.close()

"""Writes down which App Servers this host has had, and what its account has left.

An observation for people: whoever starts or ends a server leaves a note here and goes
on at once; a thread of its own writes it when the database takes it, so no call ever
waits for one. What was not written when the process ended, its successor ends.
Source: definition of host-side records.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from shared.base.errors import StoreError
from shared.base.log import get_logger
from shared.journal import serving
from shared.journal.database import Database
from workers.appserver.limits import read_windows
from workers.appserver.service import AppServerService, Started
from workers.incarnation import Incarnation
from workers.state_dir import ProcessName

_LOOK_SECONDS = 5.0
_RETRY_SECONDS = 2.0
_LAST_SECONDS = 3.0
log = get_logger()


class Generations:
    """The record of one worker's App Servers."""

    def __init__(self, database: Database, incarnation: Incarnation, appserver: AppServerService) -> None:
        self._database = database
        self._incarnation = incarnation
        self._appserver = appserver
        self._notes: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._told: dict[str, serving.Limit] = {}
        self._closing = threading.Event()
        self._closed = threading.Event()
        self._notes.put(partial(serving.end_generations_of_the_dead, database, incarnation.host, incarnation.worker_id))
        appserver.watch(self._began, self._ended)

    def loop(self) -> None:
        """Write what is noted, in its order, until closed."""
        while True:
            try:
                note = self._notes.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                note = self._look_at_limits
            if note is None:
                self._closed.set()
                return
            self._write(note)

    def close(self) -> None:
        """Write what is still noted, if the database takes it now."""
        self._closing.set()
        self._notes.put(None)
        self._closed.wait(_LAST_SECONDS)

    def _write(self, note: Callable[[], None]) -> None:
        while True:
            try:
                note()
                return
            except (StoreError, SQLAlchemyError) as error:
                log.debug("generation_not_noted", why=str(error))
                if self._closing.wait(_RETRY_SECONDS):
                    return
            except Exception:
                log.exception("generation_not_noted")
                return

    def _began(self, started: Started) -> None:
        # One that is gone already has no time any more.
        name = ""
        with contextlib.suppress(OSError):
            name = ProcessName.of(started.pid).started
        began = serving.Began(started.generation, started.pid, name, str(started.program), started.version)
        incarnation = self._incarnation
        host, worker, boot = incarnation.host, incarnation.worker_id, incarnation.identity.boot_id
        self._notes.put(partial(serving.generation_began, self._database, host, worker, boot, began))

    def _ended(self, generation: str, reason: str) -> None:
        self._notes.put(partial(serving.generation_ended, self._database, generation, reason))

    def _look_at_limits(self) -> None:
        windows = read_windows(self._appserver.rate_limits)
        limits = {window.limit_id: serving.Limit(**asdict(window)) for window in windows}
        changed = [limit for name, limit in limits.items() if self._told.get(name) != limit]
        if changed:
            serving.limits_seen(self._database, self._incarnation.host, changed)
            self._told |= limits

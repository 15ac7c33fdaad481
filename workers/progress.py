"""What the turns of this worker are doing right now, for those who watch: hints, a second old, never truth."""

from __future__ import annotations

import threading

from shared.base.errors import StoreError
from shared.base.log import get_logger
from shared.journal import progress as journal_progress
from shared.journal.append import Claim
from shared.journal.database import Database
from workers.appserver import Progress

_PERIOD_SECONDS = 1.0
log = get_logger()


class ProgressBoard:
    """The newest progress of each call, written to the database once a second for all calls together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._changed: dict[str, journal_progress.Progress] = {}

    def put(self, claim: Claim, turn_id: str, seen: Progress | None) -> None:
        """Note what a call's turn is doing; nothing is written here."""
        if seen is None:
            return
        entry = journal_progress.Progress(
            call_id=claim.call_id,
            fence=claim.fence,
            turn=turn_id,
            message=seen.message,
            command=seen.command,
            tokens=seen.tokens,
            seconds=seen.seconds,
        )
        with self._lock:
            self._changed[claim.call_id] = entry

    def forget(self, claim: Claim) -> None:
        """The call has ended: nothing more is told of it."""
        with self._lock:
            self._changed.pop(claim.call_id, None)

    def loop(self, stopping: threading.Event) -> None:
        """Write what changed, once a second, until the worker stops."""
        while not stopping.wait(_PERIOD_SECONDS):
            with self._lock:
                entries, self._changed = list(self._changed.values()), {}
            if not entries:
                continue
            try:
                journal_progress.put(self._database, entries)
            except StoreError as error:
                log.debug("progress_not_written", why=str(error))

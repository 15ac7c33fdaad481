"""Follow a run at a cursor: subscribe, then read, then wait; a poll is the floor.

A wake-up only makes the next read come sooner, so a lost one costs a poll interval
and nothing else. After any absence reading goes on exactly behind the last row that
was delivered. Source: rules of the protocol, 48; journal document, "Reading a run".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from shared.base.errors import StillRunning, StoreUnavailable, UsageError
from shared.broker.wakeups import Wakeups
from shared.journal.database import Database
from shared.journal.read import load_after
from shared.journal.runs import run_state
from shared.model.rows import EventRow, Row

PAGE_ROWS = 500
# How long a database that answered before may be away under a follower.
PATIENCE_SECONDS = 60.0


class Patience:
    """How long a database that is away is waited for before its error passes."""

    def __init__(self, seconds: float = PATIENCE_SECONDS) -> None:
        self._seconds = seconds
        self._ends: float | None = None

    def lose(self, error: StoreUnavailable) -> None:
        """It did not answer.

        Raises:
            StoreUnavailable: `error`, when it has not answered for so long.
        """
        self._ends = self._ends or time.monotonic() + self._seconds
        if time.monotonic() > self._ends:
            raise error

    def restore(self) -> None:
        """It answered."""
        self._ends = None


class Bell:
    """Wake-ups of every run, heard over one subscription."""

    def __init__(self, broker_url: str | None) -> None:
        self._wakeups = Wakeups(broker_url) if broker_url else None
        self._lock = threading.Lock()
        self._waiting: dict[str, set[threading.Event]] = {}
        self._subscribed = False

    def listen(self, run_id: str) -> threading.Event:
        """An event that is set when something happened in the run; the subscription stands when this returns."""
        event = threading.Event()
        with self._lock:
            self._waiting.setdefault(run_id, set()).add(event)
            first, self._subscribed = not self._subscribed, True
        if first and self._wakeups is not None:
            self._wakeups.subscribe(self._ring)
        return event

    def forget(self, run_id: str, event: threading.Event) -> None:
        """Hear no more for this event."""
        with self._lock:
            events = self._waiting.get(run_id, set())
            events.discard(event)
            if not events:
                self._waiting.pop(run_id, None)

    def tell(self, run_id: str) -> None:
        """Say that something happened in a run."""
        if self._wakeups is not None:
            self._wakeups.tell(run_id)

    def close(self) -> None:
        """Stop telling and hearing."""
        if self._wakeups is not None:
            self._wakeups.close()

    def _ring(self, run_id: str) -> None:
        with self._lock:
            for event in self._waiting.get(run_id, ()):
                event.set()


class Cursor:
    """One reader's place in one run.

    Shape: `seq` the last row delivered; `more` whether others wait behind it; `ended` whether it was the run's end.
    """

    def __init__(self, database: Database, bell: Bell, run_id: str, after: int = 0, poll_seconds: float = 2.0) -> None:
        self.run_id = run_id
        self.seq = after
        self.more = False
        self.ended = False
        self._database = database
        self._bell = bell
        self._poll_seconds = poll_seconds
        self._rang = bell.listen(run_id)

    def close(self) -> None:
        """Stop listening."""
        self._bell.forget(self.run_id, self._rang)

    def read(self) -> list[Row]:
        """The next page of rows behind the cursor; the cursor moves behind them, `more` says whether others wait.

        Raises:
            StoreUnavailable: the database is away; the cursor stands where it stood.
            StillRunning: the run was put aside and nothing more comes.
        """
        # Before the read: what happens from here on rings again.
        self._rang.clear()
        page = load_after(self._database, self.run_id, self.seq, PAGE_ROWS)
        self.more = page.more
        if page.rows:
            self.seq = page.rows[-1].seq
            last = page.rows[-1]
            # A run that was resumed has an end row in the middle; its last one is an end while nobody resumes it.
            self.ended = isinstance(last, EventRow) and last.kind == "finished" and not self.more
        elif not self.more:
            self._look_at_state()
        return page.rows

    def _look_at_state(self) -> None:
        # Nothing more comes behind the end row, nor in a run that was put aside.
        state = run_state(self._database, self.run_id)
        if state is None:
            raise UsageError(f"there is no run {self.run_id}; 'crw flow ps --all' lists them")
        self.ended = state.state == "ended" and state.next_seq == self.seq + 1
        if state.state == "quarantined":
            raise StillRunning(
                f"run {self.run_id} was put aside: {state.takes_without_progress} schedulers in a row died with it; "
                f"look for the reason in their logs, then go on with 'crw flow resume {self.run_id}' or end it with "
                f"'crw flow cancel {self.run_id}'"
            )

    def wait(self, seconds: float | None = None) -> None:
        """Wait until something happened in the run, at most until the next poll."""
        self._rang.wait(self._poll_seconds if seconds is None else min(seconds, self._poll_seconds))

    def follow(self, deadline: float | None = None) -> Iterator[Row]:
        """Rows as they come, until the run has ended or the monotonic clock says `deadline`.

        A database that goes away is waited for for a minute.

        Raises:
            StoreUnavailable: it did not come back.
        """
        patience = Patience()
        while True:
            rows: list[Row] = []
            try:
                rows = self.read()
                patience.restore()
            except StoreUnavailable as error:
                patience.lose(error)
            yield from rows
            if self.more:
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if self.ended or (left is not None and left <= 0):
                return
            self.wait(left)

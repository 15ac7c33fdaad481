"""Where runs wait for something to happen: a wake-up, or at the latest the next poll.

One subscription and one poll statement serve all runs of a process. A run opens its
watch before it reads, so that nothing that happens between its reading and its
waiting is missed. Source: rules of the protocol, 48.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable

from shared.broker.names import host_mark

# What wakes a host is no run.
_OF_HOSTS = host_mark("")


class RunWatch:
    """One run's ear.

    Shape: `seen_seq` is the highest row number the run has read; the run sets it and
    the poll compares it. `stop` is the run's stop flag as last polled.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.seen_seq = 0
        self.stop: str | None = None
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        """Return when something may have happened since the last return."""
        await self._changed.wait()
        self._changed.clear()

    def notify(self) -> None:
        """Something may have happened."""
        self._changed.set()


class Changes:
    """The watches of all runs that this process drives. All methods belong to the loop's thread but `hear`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_other: Callable[[], None] = lambda: None) -> None:
        """Prepare.

        Args:
            on_other: called for a wake-up of a run that is not driven here: it may be a new one.
        """
        self._loop = loop
        self._on_other = on_other
        self._watches: dict[str, RunWatch] = {}
        self._heard: set[str] = set()
        self._lock = threading.Lock()

    def open(self, run_id: str) -> RunWatch:
        """Begin to listen for a run; close it when the run ends here."""
        watch = self._watches[run_id] = RunWatch(run_id)
        return watch

    def close(self, watch: RunWatch) -> None:
        """The run ended here."""
        if self._watches.get(watch.run_id) is watch:
            del self._watches[watch.run_id]

    def hear(self, run_id: str) -> None:
        """A wake-up, from any thread. Many that come together wake the loop once."""
        with self._lock:
            first = not self._heard
            self._heard.add(run_id)
        if first:
            self._loop.call_soon_threadsafe(self._pass_on)

    def _pass_on(self) -> None:
        with self._lock:
            heard, self._heard = self._heard, set()
        for run_id in heard:
            if run_id.startswith(_OF_HOSTS):
                continue
            watch = self._watches.get(run_id)
            if watch is not None:
                watch.notify()
            else:
                self._on_other()

    def seen(self) -> dict[str, int]:
        """What to ask the poll: run and the highest row it has read."""
        return {watch.run_id: watch.seen_seq for watch in self._watches.values()}

    def polled(self, answers: Iterable[tuple[str, int, str | None]]) -> None:
        """What the poll answered: `(run, next row number, stop)` of runs that have news."""
        for run_id, next_seq, stop in answers:
            watch = self._watches.get(run_id)
            if watch is None:
                continue
            if next_seq > watch.seen_seq + 1 or stop != watch.stop:
                watch.stop = stop
                watch.notify()

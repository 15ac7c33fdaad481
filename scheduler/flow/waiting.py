"""Wait for the ends of calls: read the run's new rows when told, give each end to who waits for it.

No row is asked for by a call that waits: one page read serves all open positions of
a run, and what is read while many wait is gathered for a moment, so that five
hundred ends cost a few reads. The rows of open calls are kept until their end;
what is delivered is forgotten here.
Source: rules of the protocol, 17 and 48.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from scheduler.flow.services import Watch
from shared.base.errors import StoreUnavailable
from shared.base.log import get_logger
from shared.journal.read import Page
from shared.model.events import TERMINAL_WORDS
from shared.model.outcome import CANCELLED, Status
from shared.model.rows import CallRow, Row

_PAGE_ROWS = 2000
_MANY_WAITING = 16
_GATHER_SECONDS_A_CALL = 0.0001
_LONGEST_GATHER_SECONDS = 0.05
_RETRY_SECONDS = 1.0

Rows = Sequence[CallRow]


class Inbox:
    """The open calls of a run and who waits for their ends. `delivered` counts ends."""

    def __init__(
        self,
        watch: Watch,
        read: Callable[[int, int], Page],
        last_seq: int,
        open_calls: Mapping[str, list[CallRow]],
        on_stop: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            read: one page of rows with results, after a seq; blocks.
            open_calls: rows of the calls that were open when the run was loaded.
        """
        self._watch = watch
        self._read = read
        self._seen = watch.seen_seq = last_seq
        self._on_stop = on_stop
        self._rows: dict[str, list[CallRow]] = dict(open_calls)
        # What was open when the run was loaded may end before the script comes to it.
        self._early: dict[str, list[CallRow]] = {}
        self._unclaimed = set(open_calls)
        self._attempts: dict[str, int] = {}
        self._waiting: dict[str, asyncio.Future[Rows]] = {}
        self._emptied = asyncio.Event()
        self.delivered = 0

    @property
    def open_calls(self) -> list[str]:
        """The calls without an end."""
        return list(self._rows)

    @property
    def open_count(self) -> int:
        """How many calls have no end."""
        return len(self._rows)

    def expect(self, call_id: str, attempt: int = 0, before: Rows = ()) -> asyncio.Future[Rows]:
        """The rows of a call at the end of an attempt that is about to be opened.

        Args:
            attempt: rows of earlier ones are not this call's any more.
            before: what stands in front of the rows to come: an attempt in place goes on behind them.
        """
        self._unclaimed.discard(call_id)
        self._early.pop(call_id, None)
        self._rows[call_id] = list(before)
        self._attempts[call_id] = attempt
        return self._wait_for(call_id)

    async def await_end(self, call_id: str) -> Rows:
        """The rows of a call that was open when the run was loaded, at its end."""
        early = self._early.pop(call_id, None)
        self._unclaimed.discard(call_id)
        return early if early is not None else await self._wait_for(call_id)

    def _wait_for(self, call_id: str) -> asyncio.Future[Rows]:
        future = self._waiting[call_id] = asyncio.get_running_loop().create_future()
        return future

    def forget(self, call_id: str, error: BaseException) -> None:
        """A call could not be opened."""
        self._rows.pop(call_id, None)
        future = self._waiting.pop(call_id, None)
        if future is not None and not future.done():
            future.set_exception(error)
            # Looked at here: a task that was left behind may never ask.
            future.exception()
        if not self._rows:
            self._emptied.set()

    async def run(self) -> None:
        """Read and deliver until cancelled."""
        while True:
            await self._watch.wait()
            if self._watch.stop == "cancel":
                self._on_stop()
            more = True
            while more:
                more = await self._read_page()
            if len(self._rows) > _MANY_WAITING:
                await asyncio.sleep(min(_LONGEST_GATHER_SECONDS, len(self._rows) * _GATHER_SECONDS_A_CALL))

    async def wait_for_none_open(self, seconds: float) -> bool:
        """Whether all calls ended within the time."""
        self._emptied.clear()
        if self._rows:
            self._watch.notify()
            try:
                await asyncio.wait_for(self._emptied.wait(), seconds)
            except TimeoutError:
                return False
        return True

    async def _read_page(self) -> bool:
        try:
            page = await asyncio.to_thread(self._read, self._seen, _PAGE_ROWS)
        except StoreUnavailable as error:
            # The rows are not lost, only late: the writer decides when a run has to be given up.
            get_logger().warning("read_delayed", error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)
            return True
        self._take(page.rows)
        return page.more

    def _take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._seen = row.seq
            if not isinstance(row, CallRow):
                continue
            known = self._rows.get(row.call_id)
            if known is None or row.attempt < self._attempts.get(row.call_id, 0):
                continue
            known.append(row)
            if row.event == Status.HELD and row.detail.get("reason") == CANCELLED:
                # Its worker learned of the cancel before this process did: the script is to see no end of it.
                self._on_stop()
            if row.event in TERMINAL_WORDS:
                self._deliver(row.call_id, known)
        self._watch.seen_seq = self._seen
        if not self._rows:
            self._emptied.set()

    def _deliver(self, call_id: str, rows: list[CallRow]) -> None:
        self.delivered += 1
        del self._rows[call_id]
        self._attempts.pop(call_id, None)
        future = self._waiting.pop(call_id, None)
        if future is not None and not future.done():
            future.set_result(rows)
        elif call_id in self._unclaimed:
            self._early[call_id] = rows

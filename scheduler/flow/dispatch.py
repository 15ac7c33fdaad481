"""Append what a run opens and says: all of one loop tick as one member, then hand its calls to the publisher.

A position adds its rows and goes on to wait; the flush comes after all coroutines
that were ready have run, so a join of five hundred is a few members, not five
hundred. The writer's own thread hands the committed calls over to be sent, without
a detour over the loop.
Source: design of the farm, "The life of a call" (positions that open together go together).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from scheduler.flow.halt import Broken, Cancelled, Halt, Lost, Stopped
from scheduler.flow.services import RunServices
from shared.base.errors import FlowError, RightLost, RowRefused, RunStopping, StoreError, StoreUnavailable
from shared.base.log import get_logger
from shared.journal.append import Appended, EndedCall, OpenCall, RunLease, RunRows
from shared.model.rows import NewEventRow

_CALLS_IN_A_MEMBER = 500

Refuse = Callable[[str, BaseException], None]


class Dispatch:
    """The rows a run's scheduler writes."""

    def __init__(
        self, services: RunServices, lease: RunLease, halt: Halt, refuse: Refuse, on_own_ends: Callable[[], None]
    ) -> None:
        """Prepare.

        Args:
            refuse: told of a call whose rows the journal refuses, with the error for its position.
            on_own_ends: told when rows that end calls were written here.
        """
        self._services = services
        self._lease = lease
        self._halt = halt
        self._refuse = refuse
        self._on_own_ends = on_own_ends
        self._loop = asyncio.get_running_loop()
        self._events: list[NewEventRow] = []
        self._opens: list[OpenCall] = []
        self._ended: list[EndedCall] = []
        self._scheduled = False

    def open(self, call: OpenCall, open_calls: int) -> None:
        """Open a call for the workers; one above the run's share of the broker is held back.

        Args:
            open_calls: how many calls of the run have no end, this one included.
        """
        share = self._services.calls_at_once
        self._opens.append(replace(call, held=True) if share is not None and open_calls > share else call)
        self._schedule()

    def end(self, call: EndedCall) -> None:
        """Write the end of a call that no worker is asked for."""
        self._ended.append(call)
        self._schedule()

    def note(self, event: NewEventRow) -> None:
        """Write a row of the flow; nobody waits for it."""
        self._events.append(event)
        self._schedule()

    async def supersede(self, calls: Sequence[EndedCall], *, may_be_claimed: bool) -> bool:
        """End calls of a suffix, all of them or none; committed when this returns.

        Returns:
            False when one of them, which waited for a worker, was claimed meanwhile: nothing was written.

        Raises:
            Stopped: the run is being stopped, or is no longer ours.
        """
        member = RunRows(self._lease, ended=tuple(calls), progress=True, intent=True)
        try:
            await self.write(member)
        except StoreError as error:
            if isinstance(error, RowRefused) and may_be_claimed:
                return False
            if isinstance(error, RowRefused):
                self._halt.stop(Broken(error))
            else:
                self._refused(member, error)
            raise Stopped("the run stands: its suffix was not begun") from error
        return True

    async def write(self, rows: RunRows) -> Appended:
        """Write rows of the run itself, after everything that was added before.

        Raises:
            StoreError: as the writer gives it.
        """
        self._flush()
        return await asyncio.wrap_future(self._services.writer.submit(rows))

    def rows(self, *events: NewEventRow, withdraw: bool = False, finish: bool = False) -> RunRows:
        """Rows of the run under its lease."""
        return RunRows(self._lease, events=events, withdraw=withdraw, finish=finish)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        events, opens, ended = self._events, self._opens, self._ended
        self._events, self._opens, self._ended = [], [], []
        if isinstance(self._halt.cause, (Lost, Broken)):
            return
        if self._halt.cause is not None and (opens or ended):
            # The script has ended or is being stopped: what it had not yet opened never is.
            self._forget((*opens, *ended), Stopped("the run is being stopped: the call was not opened"))
            opens, ended = [], []
        if events or ended:
            self._submit(tuple(events), (), tuple(ended))
        for start in range(0, len(opens), _CALLS_IN_A_MEMBER):
            self._submit((), tuple(opens[start : start + _CALLS_IN_A_MEMBER]), ())

    def _submit(
        self, events: tuple[NewEventRow, ...], opens: tuple[OpenCall, ...], ended: tuple[EndedCall, ...]
    ) -> None:
        calls = bool(opens or ended)
        member = RunRows(self._lease, events, opens, ended, progress=calls, intent=calls)
        try:
            future = self._services.writer.submit(member, wait=calls)
        except StoreError as error:
            self._refused(member, error)
            return
        future.add_done_callback(partial(self._committed, member))

    def _committed(self, member: RunRows, future: Future[Appended]) -> None:
        """In the writer's thread: a callback must not raise there."""
        error = future.exception()
        if error is None:
            publications = future.result().publications
            if publications:
                self._services.publish(publications)
            if any(call.held for call in member.opens):
                self._services.on_held()
            if not member.ended:
                return
        try:
            self._loop.call_soon_threadsafe(self._settle, member, error)
        except RuntimeError:
            get_logger().info("loop_closed_before_answer", run=member.lease.run_id)

    def _settle(self, member: RunRows, error: BaseException | None) -> None:
        if error is None:
            self._on_own_ends()
        else:
            self._refused(member, error)

    def _refused(self, member: RunRows, error: BaseException) -> None:
        if isinstance(error, (RightLost, StoreUnavailable)):
            self._halt.stop(Lost(error))
        elif isinstance(error, RunStopping):
            self._halt.stop(Cancelled())
            self._forget((*member.opens, *member.ended), Stopped("the run is stopping: the call was not opened"))
        elif isinstance(error, RowRefused):
            self._part(member, error)
        else:
            self._halt.stop(Broken(error))

    def _part(self, member: RunRows, error: RowRefused) -> None:
        """Find the row at fault: the others of its tick must not fail with it."""
        parts = len(member.events) + len(member.opens) + len(member.ended)
        if parts > 1:
            for event in member.events:
                self._submit((event,), (), ())
            for ended in member.ended:
                self._submit((), (), (ended,))
            for call in member.opens:
                self._submit((), (call,), ())
            return
        self._forget((*member.opens, *member.ended), FlowError(f"the journal cannot hold this call: {error}"))
        if member.events:
            get_logger().warning("note_refused", run=member.lease.run_id, error=str(error))

    def _forget(self, calls: Sequence[OpenCall | EndedCall], error: BaseException) -> None:
        for call in calls:
            self._refuse(call.call_id, error)

"""Finish a run: none of its calls is at work any more, and exactly one end row stands.

Source: journal document, "Persistence"; rules of the protocol, 27 and 28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scheduler.flow.dispatch import Dispatch
from scheduler.flow.ending import End
from scheduler.flow.halt import Broken, Halt, Lost
from scheduler.flow.services import RunServices
from scheduler.flow.waiting import Inbox
from scheduler.last_calls import end_lost, tell_waiting
from scheduler.lost_calls import LostCalls
from shared.base.errors import RowRefused
from shared.base.log import get_logger
from shared.journal.append import RunLease, RunRows
from shared.journal.open_calls import open_calls
from shared.journal.runs import set_stop
from shared.model.rows import NewEventRow

# How often a run that is ending looks at the calls it waits for.
_LOOK_SECONDS = 1.0


class Finishing:
    """The end of one run, in the process that drives it."""

    def __init__(
        self,
        lease: RunLease,
        services: RunServices,
        inbox: Inbox,
        dispatch: Dispatch,
        halt: Halt,
        lost: LostCalls,
        *,
        told_waiting: bool,
    ) -> None:
        """Prepare.

        Args:
            lost: what looks for calls whose host was given up; closed before the run waits for its last calls.
            told_waiting: whether an earlier process said already what the cancelled run waits for.
        """
        self._lease = lease
        self._run_id = lease.run_id
        self._services = services
        self._database = services.database
        self._inbox = inbox
        self._dispatch = dispatch
        self._halt = halt
        self._lost = lost
        self._told_waiting = told_waiting

    async def close_calls(self, end: End, *, recorded: bool) -> End:
        """Withdraw what nobody claimed and wait for the rest: a run ends when none of its calls is at work.

        Returns:
            How the run ends: as given, unless no row can hold that.
        """
        if not self._inbox.open_calls:
            return end
        if not end.cancelled:
            if not recorded:
                # Before the stop, which says no more than that the run is over: a successor reads here how.
                end = await self._write_end(end, lambda end: self._dispatch.rows(end.early_row()))
            # Nobody reads these results any more: workers interrupt them as they do for a cancel.
            await asyncio.to_thread(set_stop, self._database, self._run_id, "cancel")
        told = not end.cancelled or self._told_waiting
        await self._lost.close()
        while True:
            calls = await asyncio.to_thread(open_calls, self._database, self._run_id)
            if any(call.state == "open" for call in calls):
                await self._dispatch.write(self._dispatch.rows(withdraw=True))
            if not told:
                await asyncio.to_thread(tell_waiting, self._database, self._run_id, self._write)
            told = True
            if ended := await asyncio.to_thread(end_lost, self._database, self._run_id, calls):
                await self._dispatch.write(RunRows(self._lease, ended=ended))
            if await self._inbox.wait_for_none_open(_LOOK_SECONDS):
                break
            self._halt_if_lost()
        self._halt_if_lost()
        return end

    def _write(self, row: NewEventRow) -> None:
        self._services.writer.submit(self._dispatch.rows(row)).result()

    def _halt_if_lost(self) -> None:
        if isinstance(self._halt.cause, (Lost, Broken)):
            raise self._halt.cause.error

    async def finish(self, end: End) -> None:
        """Write the end row and wake whoever follows the run.

        Writes: `finished`.
        """
        end = await self._write_end(end, lambda end: self._dispatch.rows(end.row(), finish=True))
        get_logger().info("finished", run=self._run_id, status=end.status, error_kind=end.error_kind)
        self._services.tell(self._run_id)

    async def _write_end(self, end: End, rows_of: Callable[[End], RunRows]) -> End:
        """Write an end; the one that was written."""
        try:
            await self._dispatch.write(rows_of(end))
        except RowRefused as error:
            # A result no row can hold is a fault of the script, not a run without an end.
            end = End("script_error", "script", f"the run's result cannot be stored: {error}")
            await self._dispatch.write(rows_of(end))
        return end

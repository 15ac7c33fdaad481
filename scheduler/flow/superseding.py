"""Begin a suffix: stop what is still at work in it, then end all of it in one member, before anything of it opens.

A call that a worker has is told to stop and waited for: it interrupts its turn, sees it
ended and writes its own terminal row. One that nobody claimed yet is ended directly. A
process that dies in between leaves calls that were told to stop, or a suffix that is
ended and not begun; the next one comes to the same position and goes on from there.
Source: journal document, "The suffix"; rules of the protocol, 10.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from scheduler.flow.dispatch import Dispatch
from scheduler.flow.halt import Halt, Lost, Stopped
from scheduler.flow.waiting import Inbox
from scheduler.resume.suffix import Doomed, superseded_row
from shared.base.errors import RightLost
from shared.base.log import get_logger
from shared.journal.append import RunLease
from shared.journal.database import Database
from shared.journal.stopping import stop_calls
from shared.model.outcome import SUPERSEDED_BY_RESUME


class Superseding:
    """Ends the calls of suffixes, one suffix after the other."""

    def __init__(
        self, database: Database, lease: RunLease, lineage: int, inbox: Inbox, dispatch: Dispatch, halt: Halt
    ) -> None:
        self._database = database
        self._lease = lease
        self._lineage = lineage
        self._inbox = inbox
        self._dispatch = dispatch
        self._halt = halt
        # Suffixes share what stands behind the joins above them: nothing of one opens before that is ended.
        self._lock = asyncio.Lock()

    async def supersede(self, doomed: Sequence[Doomed]) -> list[Doomed]:
        """End every call of a suffix that gives way.

        Returns:
            Those whose outcome turned out to be unknown: they are never run again.

        Raises:
            Stopped: the run is being stopped, or is no longer ours.
        """
        async with self._lock:
            unknown = [one for one in doomed if one.unknown]
            left = [one for one in doomed if one.to_supersede]
            while left:
                left, waiting = await self._bring_to_ends(left)
                unknown += [one for one in left if one.unknown]
                left = [one for one in left if one.to_supersede]
                ended = [superseded_row(one, self._lineage, waits=one.call_id in waiting) for one in left]
                if not ended or await self._dispatch.supersede(ended, may_be_claimed=bool(waiting)):
                    get_logger().info("superseded", run=self._lease.run_id, calls=len(ended))
                    break
                # One that waited was claimed in between: it is stopped like the others.
            return unknown

    async def _bring_to_ends(self, doomed: list[Doomed]) -> tuple[list[Doomed], set[str]]:
        """The same calls with the ends that those at work came to, and which of them wait for a worker."""
        at_work = [one.call_id for one in doomed if one.at_work]
        if not at_work:
            return doomed, set()
        try:
            states = await asyncio.to_thread(stop_calls, self._database, self._lease, at_work, SUPERSEDED_BY_RESUME)
        except RightLost as error:
            self._halt.stop(Lost(error))
            raise Stopped("the run is another scheduler's") from error
        waiting = {call for call in at_work if states.get(call) == "open"}
        stopped = [call for call in at_work if call not in waiting]
        if stopped:
            get_logger().info("stopping_calls", run=self._lease.run_id, calls=stopped)
        ends = dict(zip(stopped, await asyncio.gather(*map(self._inbox.await_end, stopped)), strict=True))
        return [one.with_rows(ends.get(one.call_id, one.rows)) for one in doomed], waiting

"""Act on a decision: return what was recorded, wait for what is open, go on with what was held, open what is live.

The end of each comes out of the same reading of the call's rows.
Source: design of the farm, "The life of a call"; journal document, "The suffix" and "Held calls".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from scheduler.flow.dispatch import Dispatch
from scheduler.flow.recalling import Recall, is_whole
from scheduler.flow.waiting import Inbox, Rows
from scheduler.resume.decisions import Attach, GoOn, Live, Replay, Stays
from scheduler.resume.suffix import Doomed
from shared.journal.append import EndedCall, OpenCall
from shared.model.rows import NewCallRow, NewEventRow

_REPLAYS_IN_A_ROW = 200


class Acts(Protocol):
    """What becomes of decisions: a run acts on them, a plan only notes them."""

    async def supersede(self, doomed: Sequence[Doomed]) -> list[Doomed]:
        """End the calls of a suffix; those whose outcome is unknown come back."""
        ...

    async def replay(self, decision: Replay | Stays) -> Rows:
        """The rows whose end is the position's."""
        ...

    async def attach(self, decision: Attach) -> Rows:
        """The rows of an open call at its end."""
        ...

    async def go_on(self, decision: GoOn, call: OpenCall) -> Rows:
        """The rows of a held call at its next end."""
        ...

    async def open(self, call: OpenCall, decision: Live) -> Rows:
        """The rows of a call that workers are asked for, at its end."""
        ...

    async def end(self, call: EndedCall, decision: Live) -> Rows:
        """The rows of a call that ends as it begins."""
        ...

    async def answer(self, make: Callable[[], Awaitable[NewCallRow]]) -> NewCallRow:
        """The row of an op that runs here."""
        ...

    async def then(self, follow: Awaitable[None]) -> None:
        """What still belongs to a position once its call has ended."""
        ...

    def note(self, event: NewEventRow) -> None:
        """A row of the flow."""
        ...


class Acting:
    """Acts for a run that is driven."""

    def __init__(
        self,
        inbox: Inbox,
        dispatch: Dispatch,
        supersede: Callable[[Sequence[Doomed]], Awaitable[list[Doomed]]],
        recall: Recall,
    ) -> None:
        self._recall = recall
        self._inbox = inbox
        self._dispatch = dispatch
        self._supersede = supersede
        self._replayed = 0

    async def supersede(self, doomed: Sequence[Doomed]) -> list[Doomed]:
        """End the calls of a suffix."""
        return await self._supersede(doomed) if doomed else []

    async def replay(self, decision: Replay | Stays) -> Rows:
        """The recorded rows, with their result."""
        # A long replay has nothing to wait for; the loop's other runs and its lease do.
        self._replayed += 1
        if self._replayed % _REPLAYS_IN_A_ROW == 0:
            await asyncio.sleep(0)
        rows = decision.rows
        return rows if is_whole(rows) else await self._recall.whole(rows)

    async def attach(self, decision: Attach) -> Rows:
        """Wait for whoever is at the call."""
        return await self._inbox.await_end(decision.rows[0].call_id)

    async def go_on(self, decision: GoOn, call: OpenCall) -> Rows:
        """Open the call's claim again, behind its own rows."""
        ends = self._inbox.expect(call.call_id, call.attempt, decision.rows)
        self._dispatch.open(call, self._inbox.open_count)
        return await ends

    async def open(self, call: OpenCall, decision: Live) -> Rows:
        """Open a call and wait for its end."""
        ends = self._inbox.expect(call.call_id, call.attempt)
        self._dispatch.open(call, self._inbox.open_count)
        return await ends

    async def end(self, call: EndedCall, decision: Live) -> Rows:
        """Append a call that ends as it begins: one row that is both."""
        ends = self._inbox.expect(call.call_id, call.attempt)
        self._dispatch.end(call)
        return await ends

    async def answer(self, make: Callable[[], Awaitable[NewCallRow]]) -> NewCallRow:
        """Run the op."""
        return await make()

    async def then(self, follow: Awaitable[None]) -> None:
        """Do it."""
        await follow

    def note(self, event: NewEventRow) -> None:
        """Write it; nobody waits for it."""
        self._dispatch.note(event)

"""Open a position: its place, its input digest, the walk's decision, and then its end.

The same steps whether the run is new or taken over. A replayed position writes
nothing and asks nobody; a live one appends its intent and waits; the end of both
comes out of the same reading of the call's rows.
Source: journal document, "The resume walk" and "The replayed CallResult".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from scheduler.flow.digest import input_digest
from scheduler.flow.dispatch import Dispatch
from scheduler.flow.halt import Halt, Mismatched, Stopped
from scheduler.flow.nodes import Hold, Nodes
from scheduler.flow.path import Place, current_path
from scheduler.flow.waiting import Inbox, Rows
from scheduler.resume.history import History
from scheduler.resume.walk import Attach, Live, Mismatch, Replay, mismatch_of_kinds, walk
from shared.base import ids
from shared.journal.append import EndedCall, OpenCall
from shared.journal.replay import read_call_result
from shared.model.outcome import Ended
from shared.model.rows import NewCallRow

_REPLAYS_IN_A_ROW = 200


@dataclass(frozen=True)
class Ask:
    """What a position asks.

    Shape: `asks` the members that the input digest covers; `detail` the others of
    the prepared row; `writes` says that the call works in its node's worktree;
    `hold` why nothing may be sent to the thread it continues; `answer` makes the
    row of an op that runs here.
    """

    kind: str
    effect: str
    asks: Mapping[str, Any]
    detail: Mapping[str, Any]
    what: str
    node: str | None = None
    writes: bool = False
    continues: str | None = None
    hold: Hold | None = None
    role: str | None = None
    label: str | None = None
    head: str | None = None
    pin_host: str | None = None
    deadline_seconds: float | None = None
    answer: Callable[[], Awaitable[NewCallRow]] | None = None


class Positions:
    """Opens the positions of one run."""

    def __init__(self, run_id: str, history: History, inbox: Inbox, dispatch: Dispatch, halt: Halt) -> None:
        self.run_id = run_id
        self.history = history
        self.dispatch = dispatch
        self.halt = halt
        self.nodes = Nodes()
        self._inbox = inbox
        self._replayed = 0

    async def open(self, ask: Ask, then: Callable[[Ended], Awaitable[None]] | None = None) -> Ended:
        """The end of the call at the next position of the running path.

        Args:
            then: what still belongs to the position once the call has ended.

        Raises:
            FlowError: the position cannot be opened; nothing was written.
            Stopped: the run is being stopped.
        """
        self.halt.check()
        path = current_path()
        place = path.enter(ask.what)
        try:
            digest = input_digest(ask.kind, ask.asks, path.joins)
            detail = {**ask.asks, **ask.detail, "input_digest": digest}
            if self.history.has_join(place):
                self.mismatch(mismatch_of_kinds(place, ask.what, "a join"))
            decision = walk(self.history.take_call(place), place, ask.kind, detail)
            if isinstance(decision, Mismatch):
                self.mismatch(decision)
            ended = await self._follow(decision, ask, place, detail)
            if then is not None:
                await then(ended)
            return ended
        finally:
            path.leave()

    def mismatch(self, found: Mismatch) -> NoReturn:
        """End the run: what was recorded is not what the script asks.

        Raises:
            Stopped: always.
        """
        self.halt.stop(Mismatched(found.sentence, found.differs))
        raise Stopped(found.sentence)

    async def _follow(self, decision: Live | Attach | Replay, ask: Ask, place: Place, detail: dict[str, Any]) -> Ended:
        node = ask.node if ask.writes else None
        if isinstance(decision, Live):
            hold = ask.hold or (self.nodes.hold_of(node) if node else None)
            if hold is not None:
                row = NewCallRow("held", hold.detail(), role=ask.role, label=ask.label)
                return await self._write_end(decision, ask, place, detail, row)
            if node and ask.continues is not None:
                self.nodes.require_newest(node, ask.continues)
        if node is None:
            return await self._end_of(decision, ask, place, detail)
        self.nodes.begin(node, ask.what)
        ended = None
        try:
            ended = await self._end_of(decision, ask, place, detail)
            return ended
        finally:
            self.nodes.end(node, ended)

    async def _end_of(self, decision: Live | Attach | Replay, ask: Ask, place: Place, detail: dict[str, Any]) -> Ended:
        if isinstance(decision, Replay):
            await self._breathe()
            return _read(decision.rows)
        if isinstance(decision, Attach):
            return _read(await self._inbox.expect(decision.rows[0].call_id))
        if ask.answer is not None:
            return await self._write_end(decision, ask, place, detail, await ask.answer())
        call, request = self._ids(place, decision)
        ends = self._inbox.expect(call)
        prepared = NewCallRow("prepared", detail, role=ask.role, label=ask.label, commit_sha=ask.head)
        self.dispatch.open(
            OpenCall(
                call, *place, ask.kind, ask.node, ask.effect, request, decision.attempt, prepared,
                ask.pin_host, ask.deadline_seconds,
            )
        )  # fmt: skip
        return _read(await ends)

    async def _write_end(
        self, decision: Live, ask: Ask, place: Place, detail: dict[str, Any], row: NewCallRow
    ) -> Ended:
        """Append a call that ends as it begins: one row that is both."""
        self.halt.check()
        call, request = self._ids(place, decision)
        ends = self._inbox.expect(call)
        whole = NewCallRow(
            row.event, {**detail, **row.detail}, role=row.role, label=row.label, commit_sha=ask.head, result=row.result
        )
        self.dispatch.end(EndedCall(call, *place, ask.kind, ask.node, request, decision.attempt, whole))
        return _read(await ends)

    def _ids(self, place: Place, decision: Live) -> tuple[str, str]:
        call = ids.call_id(self.run_id, *place)
        return call, ids.request_id(self.run_id, call, decision.ended_attempts)

    async def _breathe(self) -> None:
        # A long replay has nothing to wait for; the loop's other runs and its lease do.
        self._replayed += 1
        if self._replayed % _REPLAYS_IN_A_ROW == 0:
            await asyncio.sleep(0)


def _read(rows: Rows) -> Ended:
    ended = read_call_result(rows)
    if ended is None:
        raise Stopped("a call was told to have ended, but its rows do not say how")
    return ended

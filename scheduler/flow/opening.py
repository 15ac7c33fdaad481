"""Open a position: its place, its input digest, the walk's decision, and then its end.

The same steps whether the run is new, resumed or taken over. A replayed position writes
nothing and asks nobody; a live one appends its intent and waits; the end of both comes
out of the same reading of the call's rows. A call that is superseded while it is waited
for, since its host was lost, gets its next attempt here.
Source: journal document, "The resume walk", "The suffix" and "The replayed CallResult".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from scheduler.flow.acting import Acts
from scheduler.flow.deciding import Deciding
from scheduler.flow.digest import input_digest
from scheduler.flow.halt import Halt, Mismatched, Stopped
from scheduler.flow.nodes import Hold, Nodes
from scheduler.flow.path import Path, Place, current_path
from scheduler.flow.waiting import Rows
from scheduler.resume.decisions import Attach, Decision, GoOn, Live, Mismatch, Replay
from scheduler.resume.effects import standing_place
from scheduler.resume.walk import walk
from shared.base import ids
from shared.journal.append import EndedCall, OpenCall
from shared.journal.replay import read_call_result
from shared.model.outcome import GIVES_WAY, Ended, Status
from shared.model.rows import NewCallRow
from shared.model.unpushed import tree_at_hold


@dataclass(slots=True)
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

    def __init__(self, run_id: str, deciding: Deciding, acts: Acts, halt: Halt, nodes: Nodes) -> None:
        self.run_id = run_id
        self.deciding = deciding
        self.history = deciding.history
        self.acts = acts
        self.halt = halt
        self.nodes = nodes

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
            detail = self.deciding.detail(ask.kind, ask.asks, ask.detail, path)
            decision = await self.deciding.call(
                path,
                place,
                ask.kind,
                ask.what,
                detail,
                lambda: input_digest(ask.kind, ask.asks, path.joins),
                holding=self._hold_of(ask) is not None,
            )
            if isinstance(decision, Mismatch):
                self.mismatch(decision)
            self.halt.check()
            ended = await self._follow(decision, ask, path, place, detail)
            if then is not None:
                await self.acts.then(then(ended))
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

    def _hold_of(self, ask: Ask) -> Hold | None:
        return ask.hold or (self.nodes.hold_of(ask.node) if ask.node and ask.writes else None)

    async def _follow(self, decision: Decision, ask: Ask, path: Path, place: Place, detail: dict[str, Any]) -> Ended:
        node = ask.node if ask.writes else None
        if isinstance(decision, Live):
            hold = self._hold_of(ask)
            if hold is not None:
                row = NewCallRow("held", hold.detail(), role=ask.role, label=ask.label)
                return _read(await self._write_end(decision, ask, place, detail, row))
            if node and ask.continues is not None:
                self.nodes.require_newest(node, ask.continues)
        if node is None:
            return _read(await self._rows_of(decision, ask, path, place, detail))
        self.nodes.begin(node, ask.what)
        ended = None
        try:
            rows = await self._rows_of(decision, ask, path, place, detail)
            ended = _read(rows)
            self.nodes.see(node, rows)
            return ended
        finally:
            self.nodes.end(node, ended)

    async def _rows_of(self, decision: Decision, ask: Ask, path: Path, place: Place, detail: dict[str, Any]) -> Rows:
        """The rows of the position's call at its end, over as many attempts as lost hosts make of it."""
        if isinstance(decision, Replay):
            return await self.acts.replay(decision)
        assert not isinstance(decision, Mismatch)
        rows = await self._rows_at_end(decision, ask, path, place, detail)
        if isinstance(decision, GoOn) and rows[-1].event == Status.HELD and rows[-1].detail.get("reason") in GIVES_WAY:
            if (thread := standing_place(decision.rows)[0]) is not None:
                # It was not gone on with: it stays an earlier process's.
                self.history.threads[thread] = 0
            decision = await self.deciding.give_way(path, place, rows)
            assert not isinstance(decision, Mismatch)
            rows = await self._rows_at_end(decision, ask, path, place, detail)
        before = decision.rows
        while rows[-1].event == Status.SUPERSEDED:
            # Of an attempt that was opened here its own rows alone come back; the requests before it have ended too.
            before = sorted({row.seq: row for row in (*before, *rows)}.values(), key=lambda row: row.seq)
            again = walk(before, place, ask.kind, detail)
            assert isinstance(again, Live)
            rows = await self._rows_at_end(again, ask, path, place, detail)
        return rows

    async def _rows_at_end(
        self, decision: Decision, ask: Ask, path: Path, place: Place, detail: dict[str, Any]
    ) -> Rows:
        if isinstance(decision, Live):
            if ask.answer is not None:
                row = await self.acts.answer(ask.answer)
                return await self._write_end(decision, ask, place, detail, row)
            return await self.acts.open(self._opening(decision, ask, path, place, detail), decision)
        if isinstance(decision, GoOn):
            return await self.acts.go_on(decision, self._going_on(decision, ask))
        if isinstance(decision, Attach):
            return await self.acts.attach(decision)
        assert not isinstance(decision, Mismatch)
        return await self.acts.replay(decision)

    def _opening(self, decision: Live, ask: Ask, path: Path, place: Place, detail: dict[str, Any]) -> OpenCall:
        call, request = self._ids(place, decision)
        more: dict[str, Any] = {"lineage": self.history.lineage}
        because = decision.because or path.suffix
        if ask.effect == "executor" and ask.node is not None and (because is not None or decision.lost):
            told = because.to_json() if because is not None else {"reason": "host_lost"}
            held = self.deciding.held.pop(ask.node, ())
            boundary = self.nodes.restore(
                ask.node, self.history.lineage, told, held, lost=decision.lost, taken_at=path.taken_at
            )
            if boundary is not None:
                more["boundary"] = boundary.to_json()
        # What an attempt on a lost host sent stands in the thread, if that host comes back with it.
        if ask.continues is not None and (decision.lost or self._forks(ask.continues, path)):
            more["context"] = {**detail["context"], "how": "fork"}
        prepared = NewCallRow("prepared", {**detail, **more}, role=ask.role, label=ask.label, commit_sha=ask.head)
        return OpenCall(
            call, *place, ask.kind, ask.node, ask.effect, request, decision.attempt, prepared,
            ask.pin_host, ask.deadline_seconds,
        )  # fmt: skip

    def _forks(self, thread_id: str, path: Path) -> bool:
        """Whether a conversation goes on in a fork: its thread is that of another run, or from before the suffix."""
        if path.suffix is None:
            return thread_id in self.history.copied
        return self.history.has_thread(thread_id, path.taken_at)

    def _going_on(self, decision: GoOn, ask: Ask) -> OpenCall:
        # Behind it stand only goings-on that were withdrawn.
        last = next(row for row in reversed(decision.rows) if row.event == Status.HELD)
        thread, host = standing_place(decision.rows)
        if ask.node is not None and ask.writes:
            self.nodes.keep(ask.node)
        if thread is not None:
            # What goes on in place is this process's conversation from now on.
            self.history.threads.pop(thread, None)
        detail = {
            "lineage": self.history.lineage, "reason": decision.reason, "input_state": decision.input_state,
            "p_held": tree_at_hold(last), "of_attempt": last.attempt,
        }  # fmt: skip
        cleared = NewCallRow("hold_cleared", detail, role=ask.role, label=ask.label, input_state=decision.input_state)
        return OpenCall(
            last.call_id, last.path, last.position, ask.kind, ask.node, ask.effect, last.request_id, decision.attempt,
            cleared, host or ask.pin_host, ask.deadline_seconds,
        )  # fmt: skip

    async def _write_end(self, decision: Live, ask: Ask, place: Place, detail: dict[str, Any], row: NewCallRow) -> Rows:
        """Append a call that ends as it begins: one row that is both."""
        self.halt.check()
        call, request = self._ids(place, decision)
        members = {**detail, "lineage": self.history.lineage, **row.detail}
        whole = NewCallRow(row.event, members, role=row.role, label=row.label, commit_sha=ask.head, result=row.result)
        ended = EndedCall(call, *place, ask.kind, ask.node, request, decision.attempt, whole)
        return await self.acts.end(ended, decision)

    def _ids(self, place: Place, decision: Live) -> tuple[str, str]:
        call = ids.call_id(self.run_id, *place)
        return call, ids.request_id(self.run_id, call, decision.ended_attempts)


def _read(rows: Rows) -> Ended:
    ended = read_call_result(rows)
    if ended is None:
        raise Stopped("a call was told to have ended, but its rows do not say how")
    return ended

"""Decide what a position does: the walk over its rows, the proof of its effect, and what a suffix takes along.

Everything that a resume decides is decided here, whoever acts on it: the run itself, or
a plan that only shows it.
Source: journal document, "The resume walk" and "The suffix".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scheduler.flow.digest import input_digest
from scheduler.flow.path import Path, Place
from scheduler.flow.services import Inputs
from scheduler.resume.attempts import live_again
from scheduler.resume.decisions import Decision, Failed, GoOn, Live, Mismatch, Replay, Stays
from scheduler.resume.history import History, Recorded
from scheduler.resume.suffix import Doomed, behind_join, behind_position, doom, held_trees
from scheduler.resume.walk import (
    failed_join,
    failed_kinds,
    judge,
    judge_held,
    mismatch_of_join,
    mismatch_of_kinds,
    walk,
    walk_join,
)
from shared.model.boundary import HeldTree, without_withdrawn
from shared.model.ops import OPS
from shared.model.proof import Prover
from shared.model.rows import CallRow

# Ends the calls of a suffix; gives back those whose outcome turned out to be unknown.
Supersede = Callable[[Sequence[Doomed]], Awaitable[list[Doomed]]]
# The engine's own ops have no effect that somebody else could undo.
_WITHOUT_EFFECT = frozenset({"sleep", *(name for name, shape in OPS.items() if shape.place == "scheduler")})


class Deciding:
    """The decisions of one run.

    Shape: `held` collects, by node, the trees of held calls that suffixes took along.
    """

    def __init__(
        self,
        history: History,
        prover: Prover,
        supersede: Supersede,
        *,
        asked: bool = False,
        inputs: Inputs | None = None,
    ) -> None:
        """Prepare.

        Args:
            asked: somebody asked for this resume; otherwise a script that asks something else ends its run.
            inputs: facts that only an act outside the run changes.
        """
        self.history = history
        self.held: dict[str, list[HeldTree]] = {}
        self._prover = prover
        self._supersede = supersede
        self._asked = asked
        self._inputs = inputs
        # What suffixes of this resume ended: the script may come there again.
        self._ended: dict[Place, Doomed] = {}

    def detail(self, kind: str, asks: Mapping[str, Any], more: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """What the position's `prepared` row records of its input."""
        detail = {**asks, **more, "input_digest": input_digest(kind, digested(asks), path.joins)}
        facts = self._inputs(kind, asks) if self._inputs else None
        return detail if facts is None else {**detail, "input_snapshot": dict(facts)}

    async def call(
        self,
        path: Path,
        place: Place,
        kind: str,
        what: str,
        detail: Mapping[str, Any],
        older: Callable[[], str],
        *,
        holding: bool,
    ) -> Decision:
        """What the call at a place does. When this returns, the suffix that it starts is ended.

        Args:
            older: makes the digest of the same input as an older version recorded it.
            holding: whether its node or conversation holds now.
        """
        if self.history.has_join(place):
            if not self._asked:
                return mismatch_of_kinds(place, what, "a join")
            because = failed_kinds(place, what, "a join")
            before = walk(self.history.take_call(place), place, kind, detail)
            await self._begin(path, place, [], because, after=place[1] - 1)
            return replace(before, because=because) if isinstance(before, Live) else Live(because=because)
        ended = self._ended.pop(place, None)
        if ended is not None and ended.to_supersede:
            return live_again(ended.rows, ended.because)
        rows = ended.rows if ended is not None else self.history.take_call(place)
        decision = walk(rows, place, kind, detail, broken=path.broken, holding=holding, asked=self._asked, also=older)
        if isinstance(decision, Replay):
            if kind not in _WITHOUT_EFFECT and _has_effect(kind, rows):
                decision = judge(decision, self._prover.known(rows) or await self._prover.verdict(rows))
            if isinstance(decision, Replay):
                path.see(decision.rows[-1].seq)
                return decision
        elif isinstance(decision, GoOn) and kind == "agent" and _was_placed(rows):
            decision = judge_held(decision, await self._prover.held(rows))
        return await self._settle(path, place, decision)

    async def give_way(self, path: Path, place: Place, rows: Sequence[CallRow]) -> Decision:
        """A held call was to go on in place, and where it stood that turned out not to be: it starts a suffix."""
        end = rows[-1].detail
        sentence = f"it was held and could not go on in place: {end.get('error')}"
        again = live_again(rows, Failed("g", place, sentence, facts={"hold": end.get("reason")}))
        # Its node was taken for one that stays as it is.
        return await self._settle(path, place, replace(again, lost=True))

    async def _settle(self, path: Path, place: Place, decision: Decision) -> Decision:
        if isinstance(decision, Live):
            if decision.because is None:
                path.ran_live()
                return decision
            own = [Doomed(Recorded(place, decision.rows), decision.because)]
            unknown = await self._begin(path, place, own, decision.because, taken_at=_taken_at(decision.rows))
            for one in unknown:
                if one.recorded.place == place:
                    return Stays(one.rows, decision.because)
        elif isinstance(decision, GoOn):
            await self._begin(path, place, [], None)
        elif isinstance(decision, Stays) and decision.because is not None:
            await self._begin(path, place, [], decision.because)
        elif isinstance(decision, Stays):
            path.see(decision.rows[-1].seq)
        return decision

    async def begin_join(self, path: Path, place: Place, what: str) -> Mismatch | None:
        """A join opens where something else may stand."""
        if not self.history.has_call(place):
            return None
        if not self._asked:
            return mismatch_of_kinds(place, what, "a call")
        because = failed_kinds(place, what, "a call")
        own = [Doomed(Recorded(place, self.history.take_call(place)), because)]
        await self._begin(path, place, own, because)
        return None

    async def settle_join(self, path: Path, place: Place, digest: str) -> bool | Mismatch:
        """Whether a join replays; where it does not, what stands behind it is ended when this returns."""
        row = self.history.take_join(place, path.newest_seq)
        if row is None:
            return False
        recorded = str(row.data.get("digest"))
        if walk_join(recorded, digest, path.broken):
            path.see(row.seq)
            return True
        if path.broken is None:
            if not self._asked:
                return mismatch_of_join(place)
            await self._begin(path, place, [], failed_join(place, recorded, digest))
        return False

    async def end(self) -> None:
        """The script has come to its end: what it did not come to any more is ended, if this resume was asked for."""
        if not self._asked or not self.history.places_left():
            return
        gone = [
            Doomed(one, Failed("c", one.place, "the script does not come to it any more", ("positions",)))
            for one in self.history.take_left()
        ]
        await self._supersede(gone)

    async def _begin(
        self,
        path: Path,
        place: Place,
        own: list[Doomed],
        because: Failed | None,
        *,
        after: int | None = None,
        taken_at: int | None = None,
    ) -> list[Doomed]:
        """Mark what does not replay from a place on, take it from the history and have it ended.

        Args:
            taken_at: the row with which an earlier process took the place back, if one did.
        """
        join = because is not None and because.condition == "f" and because.place == place
        behind = because if join and because is not None else behind_position(place)
        taken = self.history.take_behind(path.name, place[1] if after is None else after)
        doomed = [*own, *doom(path.name, taken, behind)]
        if because is not None or _any_stands(taken):
            path.begin_suffix(behind, _if_all_gone(doomed, taken_at))
        path.broken = path.broken or behind
        for above in path.above():
            over = behind_join(above.place, place)
            taken = self.history.take_behind(*above.place)
            doomed += doom(above.name, taken, over)
            if _any_stands(taken):
                above.begin_suffix(over, _if_all_gone(doomed, taken_at))
            above.broken = above.broken or over
        for node, trees in held_trees(doomed).items():
            self.held.setdefault(node, []).extend(trees)
        unknown = await self._supersede(doomed)
        self._ended |= {one.recorded.place: one for one in (*doomed, *unknown) if one.recorded.place != place}
        return unknown


def digested(asks: Mapping[str, Any]) -> Mapping[str, Any]:
    """The members that the digest covers: of a conversation not the call that had it last, which names run and path."""
    context = asks.get("context")
    if not context or "call" not in context:
        return asks
    return {**asks, "context": {name: value for name, value in context.items() if name != "call"}}


def _any_stands(taken: Sequence[Recorded]) -> bool:
    """Whether something there is taken back, now or by an earlier resume; what was withdrawn never began."""
    return any(without_withdrawn(one.rows) for one in taken)


def _taken_at(rows: Sequence[CallRow]) -> int | None:
    """The row with which an earlier process took a call back; None when its newest attempt stands."""
    return rows[-1].seq if rows and rows[-1].event == "superseded" else None


def _if_all_gone(doomed: Sequence[Doomed], taken_at: int | None) -> int | None:
    """The same as long as nothing is taken back now: what is makes the suffix this process's own."""
    return None if any(one.to_supersede for one in doomed) else taken_at


def _has_effect(kind: str, rows: Sequence[CallRow]) -> bool:
    """Whether a prover has anything to look at in an ended call: an op, or an agent that worked on a node."""
    return kind != "agent" or rows[-1].node_id is not None


def _was_placed(rows: Sequence[CallRow]) -> bool:
    return any(row.event in ("placed", "thread_requested") for row in rows)

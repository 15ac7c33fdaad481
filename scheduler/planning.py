"""Plan a resume: run the script over its record, note what each position would do, and change nothing.

The decisions come from the very functions that decide in a resume. A position that
would run live ends its path here, since nobody knows what it would answer; paths
beside it go on. No row is written; hosts are asked whether recorded effects are there.
Source: design of the farm, "Room to leave".
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from scheduler.flow.api import Flow
from scheduler.flow.deciding import Deciding
from scheduler.flow.driving import run_script, unknown_nodes
from scheduler.flow.ending import fault_of
from scheduler.flow.failure import describe_failure
from scheduler.flow.halt import Halt, Stopped
from scheduler.flow.nodes import Nodes
from scheduler.flow.opening import Ask, Positions
from scheduler.flow.path import current_path
from scheduler.flow.script import Script
from scheduler.flow.services import Inputs
from scheduler.flow.waiting import Rows
from scheduler.resume.decisions import Attach, GoOn, Live, Replay, Stays
from scheduler.resume.history import History
from scheduler.resume.plan import Plan, Planned, PlannedPosition, in_order, planned
from scheduler.resume.suffix import Doomed
from shared.base.errors import HostUnreachable, StoreError, UsageError
from shared.journal.append import EndedCall, OpenCall
from shared.model.boundary import without_withdrawn
from shared.model.events import TERMINAL_WORDS
from shared.model.outcome import Ended
from shared.model.proof import Prover
from shared.model.rows import NewCallRow, NewEventRow, Row
from shared.model.spec import RunSpec

# A script that computes this long between two positions is not planned but run.
_LIMIT_SECONDS = 120.0


class Parked(BaseException):
    """The path stands at a position whose answer only a resume can bring."""


async def plan_resume(
    run_id: str,
    spec: RunSpec,
    sources: Mapping[str, bytes],
    rows: Sequence[Row],
    prover: Prover,
    *,
    asked: bool = True,
    inputs: Inputs | None = None,
) -> Plan:
    """What a resume of the run would do now.

    Args:
        prover: says whether recorded effects are there; HostUnreachable where a host is silent for too long.
        asked: plan what `crw flow resume` does; False for what a takeover would do.

    Raises:
        UsageError: the script does not come to a stand. RightLost: somebody drives the run now.
        StoreError: the database stayed away.
    """
    history = History(rows)
    halt = Halt()
    acts = Noting()
    deciding = Deciding(history, prover, acts.supersede, asked=asked, inputs=inputs)
    positions = PlanPositions(run_id, deciding, acts, halt, Nodes(history.worked, unknown_nodes(history, spec)))
    script = Script(run_id, spec.script, sources)
    try:
        flow = Flow(spec, script, positions, _no_clock)
        task = asyncio.create_task(run_script(script, flow, positions))
        done, _ = await asyncio.wait({task}, timeout=_LIMIT_SECONDS)
        if not done:
            task.cancel()
            raise UsageError(f"the script did not come to a stand within {_LIMIT_SECONDS:.0f} s of planning")
        if positions.broken is not None:
            raise positions.broken
        end = _end_of(task, halt, script)
    finally:
        script.unload()
    return Plan(in_order(acts.positions.values()), end)


def _end_of(task: asyncio.Task[object], halt: Halt, script: Script) -> str:
    if task.cancelled():
        return "the script cancelled itself"
    error = task.exception()
    if error is None:
        return fault_of(task.result()) or "completed"
    if isinstance(error, Parked):
        return "goes_on"
    if isinstance(error, Stopped):
        return getattr(halt.cause, "sentence", str(error))
    return describe_failure(error, script)[0]


async def _no_clock() -> datetime:
    raise Parked


class PlanPositions(Positions):
    """Positions that are only decided."""

    def __init__(self, run_id: str, deciding: Deciding, acts: Noting, halt: Halt, nodes: Nodes) -> None:
        super().__init__(run_id, deciding, acts, halt, nodes)
        self._noting = acts
        self._parked: set[str] = set()
        # Why nothing more can be known, of the first position that met it.
        self.broken: StoreError | None = None

    async def open(self, ask: Ask, then: Callable[[Ended], Awaitable[None]] | None = None) -> Ended:
        """Decide the next position; only what replays gives an end."""
        path = current_path()
        if path.name in self._parked:
            raise Parked
        try:
            return await super().open(ask, then)
        except HostUnreachable as error:
            self._noting.wait(path.place, ask, str(error))
            self._parked.add(path.name)
            raise Parked from error
        except StoreError as error:
            # No failure of the position: a script that catches it would come to another plan.
            self.broken = self.broken or error
            self._parked.add(path.name)
            raise Parked from error
        except Parked:
            self._parked.add(path.name)
            raise


class Noting:
    """Notes decisions instead of acting on them. `positions` has what was noted, one for each place."""

    def __init__(self) -> None:
        self.positions: dict[tuple[str, int], PlannedPosition] = {}

    def _note(self, position: PlannedPosition) -> None:
        self.positions.setdefault(position.place, position)

    def wait(self, place: tuple[str, int], ask: Ask, why: str) -> None:
        """Whether a position replays is not known."""
        self._note(
            PlannedPosition(place, Planned.WAITS, ask.kind, node=ask.node, role=ask.role, label=ask.label, note=why)
        )

    async def supersede(self, doomed: Sequence[Doomed]) -> list[Doomed]:
        """The suffix, with the position that starts it: all of it runs live, but for what nobody knows the end of."""
        for one in doomed:
            if without_withdrawn(one.rows):
                self._note(planned(one.rows, Planned.HELD if one.unknown else Planned.LIVE, one.because))
        return [one for one in doomed if one.unknown]

    async def replay(self, decision: Replay | Stays) -> Rows:
        """It stands."""
        stays = isinstance(decision, Stays)
        because = decision.because if isinstance(decision, Stays) else None
        self._note(planned(decision.rows, Planned.HELD if stays else Planned.REPLAY, because))
        return decision.rows

    async def attach(self, decision: Attach) -> Rows:
        """Its end is still to come."""
        self._note(planned(decision.rows, Planned.ATTACH))
        raise Parked

    async def go_on(self, decision: GoOn, call: OpenCall) -> Rows:
        """It goes on in place."""
        note = "its turns are over: its work is pushed, and its recorded answer stands" if decision.answered else None
        self._note(planned(decision.rows, Planned.GO_ON, note=note))
        raise Parked

    async def open(self, call: OpenCall, decision: Live) -> Rows:
        """It runs live."""
        self._live((call.path, call.position), call.kind, call.node_id, call.prepared, decision)
        raise Parked

    async def end(self, call: EndedCall, decision: Live) -> Rows:
        """It ends as it begins: its node holds, or it runs in the scheduler."""
        place = (call.path, call.position)
        held = call.row.event in TERMINAL_WORDS and call.row.event != "completed"
        if held and decision.rows:
            self.positions[place] = planned(decision.rows, Planned.HELD, decision.because)
        self._live(place, call.kind, call.node_id, call.row, decision, Planned.HELD if held else Planned.LIVE)
        raise Parked

    async def answer(self, make: Callable[[], Awaitable[NewCallRow]]) -> NewCallRow:
        """Only a resume answers."""
        return NewCallRow("completed", result=b"null")

    async def then(self, follow: Awaitable[None]) -> None:
        """Nothing is waited for."""
        if inspect.iscoroutine(follow):
            follow.close()

    def note(self, event: NewEventRow) -> None:
        """Nothing is written."""

    def _live(
        self, place: tuple[str, int], kind: str, node: str | None, row: NewCallRow, decision: Live,
        word: Planned = Planned.LIVE,
    ) -> None:  # fmt: skip
        if decision.rows:
            self._note(planned(decision.rows, word, decision.because))
        else:
            note = "it was never opened before"
            self._note(PlannedPosition(place, word, kind, node=node, role=row.role, label=row.label, note=note))

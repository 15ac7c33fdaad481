"""Drive one run: its identity, the script, and exactly one end row.

Start is resume with an empty journal: the recorded rows become the history, the
script runs from its top, and each position replays, waits or runs live. The run
ends completed, script_error or replay_mismatch - a cancelled one with the status
script_error and the kind cancelled - or is left to another scheduler without a row,
when the right to write it was lost.
Source: journal document, "Persistence" and "The resume walk"; rules of the protocol, 28 and 47.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

from scheduler.finishing import Finishing
from scheduler.flow.acting import Acting
from scheduler.flow.api import Flow
from scheduler.flow.deciding import Deciding
from scheduler.flow.dispatch import Dispatch
from scheduler.flow.driving import drive_word, run_script, unknown_nodes
from scheduler.flow.ending import CANCELLED, End, end_of_script, mismatch_end, recorded_end, started_row
from scheduler.flow.halt import Broken, Cancelled, Halt, Lost, Mismatched, Over
from scheduler.flow.halting import HaltingProver
from scheduler.flow.nodes import Nodes
from scheduler.flow.opening import Positions
from scheduler.flow.recalling import Recall
from scheduler.flow.script import Script
from scheduler.flow.services import Changes, RunServices, Watch
from scheduler.flow.silence import Silence
from scheduler.flow.superseding import Superseding
from scheduler.flow.waiting import Inbox
from scheduler.last_calls import was_told
from scheduler.lost_calls import LostCalls
from scheduler.resume.history import History
from shared.base.errors import RightLost
from shared.base.log import get_logger
from shared.journal.append import RunLease
from shared.journal.database import Database, clock
from shared.journal.read import Page, load_after
from shared.journal.runs import load_source, load_spec, run_state
from shared.journal.slim import load_slim
from shared.model.rows import Row
from shared.model.spec import RunSpec

__all__ = ["Changes", "RunServices", "Taken", "Watch", "drive_run"]

_UNWIND_SECONDS = 5.0


class Taken(Protocol):
    """A run that was taken under a lease, as the journal gives it."""

    @property
    def run_id(self) -> str: ...
    @property
    def lease(self) -> RunLease: ...
    @property
    def stop(self) -> str | None: ...
    @property
    def resumes(self) -> int: ...


async def drive_run(taken: Taken, services: RunServices) -> None:
    """Drive a run to its end row, or until it is no longer ours.

    Cancelling this coroutine leaves the run as it is: another scheduler goes on with it.

    Raises:
        StoreError: Postgres stayed away, or refused what it should not; the run is not ended.
    """
    watch = services.changes.open(taken.run_id)
    try:
        await _Drive(taken, services, watch).run()
    except RightLost as error:
        get_logger().warning("run_lost", run=taken.run_id, reason=str(error))
    finally:
        services.changes.close(watch)


@lru_cache(maxsize=256)
def _source(database: Database, digest: str) -> bytes:
    # Content is named by its digest, so it never goes stale; many runs share a script.
    return load_source(database, digest)


class _Drive:
    """One run in one process."""

    def __init__(self, taken: Taken, services: RunServices, watch: Watch) -> None:
        self._taken = taken
        self._run_id = taken.run_id
        self._services = services
        self._database = services.database
        self._watch = watch
        self._halt = Halt()
        self._asked = False

    async def run(self) -> None:
        if self._services.ask_ahead is not None:
            await asyncio.to_thread(self._services.ask_ahead, self._run_id, self._taken.lease.epoch)
        spec = await asyncio.to_thread(load_spec, self._database, self._run_id)
        sources = await asyncio.to_thread(self._load_sources, spec)
        rows = await asyncio.to_thread(load_slim, self._database, self._run_id)
        history = History(rows)
        self._inbox = Inbox(self._watch, self._read_page, history.last_seq, history.open_calls(), self._stop)
        self._dispatch = Dispatch(self._services, self._taken.lease, self._halt, self._inbox.forget, self._watch.notify)
        how = drive_word(self._taken.resumes, history)
        await self._dispatch.write(self._dispatch.rows(started_row(spec, history, how)))
        if self._taken.stop == "cancel":
            self._stop()
        self._asked = how == "resume" or history.asked
        positions = self._positions(spec, rows, history)
        script = Script(self._run_id, spec.script, sources)
        flow = Flow(spec, script, positions, self._clock)
        after = self._services.escalate_seconds
        silence = Silence(self._database, self._run_id, self._inbox, self._dispatch, escalate_seconds=after)
        lost = LostCalls(self._database, self._taken.lease, spec, self._inbox, self._dispatch)
        finishing = Finishing(
            self._taken.lease,
            self._services,
            self._inbox,
            self._dispatch,
            self._halt,
            lost,
            told_waiting=was_told(rows),
        )
        recorded = recorded_end(rows)
        # From here on the history has them, and lets go of each when the script comes to it.
        del rows
        loops = (self._inbox.run(), silence.run(), lost.run())
        duties = {asyncio.create_task(loop, name=self._run_id) for loop in loops}
        for duty in duties:
            duty.add_done_callback(self._duty_ended)
        try:
            # An end that was recorded stands: its script has nothing to add, and it would come to another one now.
            end = recorded or await self._end_of(script, flow, positions)
            if end is not None:
                await finishing.finish(await finishing.close_calls(end, recorded=end == recorded))
        finally:
            for duty in duties:
                duty.cancel()
            await asyncio.wait(duties)
            script.unload()

    def _positions(self, spec: RunSpec, rows: Sequence[Row], history: History) -> Positions:
        lease, dispatch = self._taken.lease, self._dispatch
        superseding = Superseding(self._database, lease, history.lineage, self._inbox, dispatch, self._halt)
        recall = Recall(self._database, self._run_id, history)
        acts = Acting(self._inbox, dispatch, superseding.supersede, recall)
        prover = HaltingProver(self._services.proofs(self._run_id, lease.epoch, rows, dispatch.note), self._halt)
        deciding = Deciding(history, prover, acts.supersede, asked=self._asked, inputs=self._services.inputs)
        nodes = Nodes(history.worked, unknown_nodes(history, spec))
        return Positions(self._run_id, deciding, acts, self._halt, nodes)

    # -- the script --------------------------------------------------------------------------------

    async def _end_of(self, script: Script, flow: Flow, positions: Positions) -> End | None:
        """Run the script; None when the run is no longer ours.

        Raises:
            StoreError: the run cannot be driven on by this process.
        """
        main = asyncio.create_task(run_script(script, flow, positions), name=self._run_id)
        standing = asyncio.create_task(self._halt.wait())
        try:
            await asyncio.wait({main, standing}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # This process lets the run go: what the script does while it unwinds is nobody's any more.
            self._halt.stop(Lost(RightLost("the run is left to another scheduler")))
            raise
        finally:
            standing.cancel()
            await self._unwind(main)
        self._halt.stop(Over())
        cause = self._halt.cause
        if isinstance(cause, Lost):
            if isinstance(cause.error, RightLost):
                get_logger().warning("run_lost", run=self._run_id, reason=str(cause.error))
                return None
            raise cause.error
        if isinstance(cause, Broken):
            raise cause.error
        if isinstance(cause, Cancelled):
            if not await self._is_cancelled():
                return None
            return CANCELLED
        if isinstance(cause, Mismatched):
            return mismatch_end(self._run_id, cause.sentence)
        return end_of_script(self._run_id, main, script, positions.history, asked=self._asked)

    async def _is_cancelled(self) -> bool:
        """Whether the run is to end; one that is only paused stays as it is, for whoever goes on with it."""
        state = await asyncio.to_thread(run_state, self._database, self._run_id)
        if state is not None and state.stop == "pause":
            get_logger().info("paused", run=self._run_id)
            return False
        return True

    async def _unwind(self, main: asyncio.Task[Any]) -> None:
        """Cancel the script's whole tree; one that does not let go is left behind, and can open nothing."""
        if not main.done():
            main.cancel()
            await asyncio.wait({main}, timeout=_UNWIND_SECONDS)
        if not main.done():
            get_logger().error("script_does_not_stop", run=self._run_id)
        elif not main.cancelled():
            # Looked at, or asyncio complains of an exception that nobody wanted.
            main.exception()

    # -- what the engine asks ------------------------------------------------------------------------

    def _read_page(self, after: int, limit: int) -> Page:
        return load_after(self._database, self._run_id, after, limit, results=True)

    async def _clock(self) -> datetime:
        return await asyncio.to_thread(clock, self._database)

    def _load_sources(self, spec: RunSpec) -> Mapping[str, bytes]:
        return {name: _source(self._database, digest) for name, digest in spec.sources.items()}

    def _stop(self) -> None:
        self._halt.stop(Cancelled())

    def _duty_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._halt.stop(Broken(error))

"""The runs that this process drives: each is one task of the loop, and no run's trouble is another's.

A run that cannot be driven on is queued again and taken anew from its rows; one
that breaks counts as a take without progress, so that the third time it is
quarantined instead of going round for ever.
Source: rules of the protocol, 24, 41 and 47.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sqlalchemy.exc import SQLAlchemyError

from scheduler.alone import ALONE_AT_TAKES
from scheduler.flow.services import RunServices
from scheduler.run import drive_run
from shared.base.errors import StoreError, StoreUnavailable
from shared.base.log import get_logger
from shared.journal import run_leases
from shared.journal.run_leases import TakenRun

# At once a survivor takes no more than this of a dead scheduler's runs; the next look takes more.
_TAKES_A_LOOK = 20
log = get_logger()


class Driving:
    """All runs of one scheduler process. Everything happens in the loop's thread."""

    def __init__(
        self,
        services: RunServices,
        max_runs: int,
        *,
        pause_seconds: float,
        on_ended: Callable[[], None],
        alone: Callable[[TakenRun], Awaitable[None]] | None = None,
    ) -> None:
        """Prepare.

        Args:
            pause_seconds: how long a run rests that could not be driven on, before it may be taken again.
            on_ended: called when there is room for another run.
            alone: drives a run that may take its process along, in another one; None in that process itself.
        """
        self._services = services
        self._max_runs = max_runs
        self._pause_seconds = pause_seconds
        self._on_ended = on_ended
        self._alone = alone
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def take(self, scheduler_id: str) -> int:
        """Take runs that nobody drives, as many as there is room for.

        Returns:
            How many were taken.

        Raises:
            StoreError: the database is away, or this scheduler was declared dead.
        """
        room = min(_TAKES_A_LOOK, self._max_runs - len(self._tasks))
        if room <= 0:
            return 0
        taken = await asyncio.to_thread(
            run_leases.take, self._services.database, scheduler_id, room, driven=tuple(self._tasks)
        )
        for run in taken:
            self._begin(run)
        return len(taken)

    async def drive(self, run: TakenRun) -> None:
        """Drive one run and return when it has ended here."""
        await asyncio.wait({self._begin(run)})

    def _begin(self, run: TakenRun) -> asyncio.Task[None]:
        log.info("taken", run=run.run_id, takes=run.takes)
        task = self._tasks[run.run_id] = asyncio.create_task(self._drive(run), name=run.run_id)
        return task

    def let_all_go(self) -> None:
        """Cancel every run at once: they are another scheduler's now."""
        for task in self._tasks.values():
            task.cancel()

    async def cancel_all(self) -> None:
        """Cancel every run and wait until each is gone from this process."""
        self.let_all_go()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _drive(self, run: TakenRun) -> None:
        try:
            if self._alone is not None and run.takes >= ALONE_AT_TAKES:
                await self._alone(run)
                # Where the child did not even come to take it over, it is still ours.
                await self._queue_again(run, broke=True)
            else:
                await drive_run(run, self._services)
        except StoreUnavailable as error:
            log.warning("run_interrupted", run=run.run_id, why=str(error))
            await self._queue_again(run, broke=False)
        except Exception:
            log.exception("run_broke", run=run.run_id)
            await self._queue_again(run, broke=True)
        finally:
            # Let go, it may have been taken again before this task came to its end: then the entry is the next one's.
            if self._tasks.get(run.run_id) is asyncio.current_task():
                del self._tasks[run.run_id]
            self._on_ended()

    async def _queue_again(self, run: TakenRun, *, broke: bool) -> None:
        while True:
            # Not at once: whatever broke it may need a moment to pass.
            await asyncio.sleep(self._pause_seconds)
            try:
                await asyncio.to_thread(run_leases.let_go, self._services.database, run.lease, broke=broke)
                return
            except (StoreError, SQLAlchemyError) as error:
                log.warning("run_not_let_go", run=run.run_id, why=str(error))

"""One scheduler: its loop, its threads and its end.

One loop drives the runs; threads renew the lease, sweep, publish and hear wake-ups.
Several schedulers may run: a run belongs to one at a time, and a run whose scheduler
stopped or died is taken by another, which replays what is recorded and goes on.
Source: design of the farm, "Processes"; rules of the protocol, 13, 24, 47 and 48.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from scheduler.alone import Handed, drive_alone
from scheduler.changes import Changes
from scheduler.driving import Driving
from scheduler.ending import BLOCKED_STATUS, leave
from scheduler.flow.services import RunServices
from scheduler.lease import Lease
from scheduler.outgoing import Outgoing
from scheduler.resume.proving import Provers
from scheduler.stall import StallWatch
from scheduler.sweeps.dead_schedulers import BurySchedulers
from scheduler.sweeps.hand_over import HandOver
from scheduler.sweeps.host_loss import LoseHosts
from scheduler.sweeps.moving import MoveNodes
from scheduler.sweeps.publish import PublishDue
from scheduler.sweeps.rescue import RescueCalls
from scheduler.sweeps.sweep import SweepLoop
from shared.base.errors import StoreError
from shared.base.log import get_logger
from shared.base.settings import Settings
from shared.broker.publish import Publisher
from shared.broker.wakeups import Wakeups
from shared.journal import run_leases, runs
from shared.journal.append import JournalWriter
from shared.journal.database import Database

_TICK_SECONDS = 0.2
log = get_logger()


class Scheduler:
    """One scheduler process. Made and run inside its loop."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        broker_url: str,
        handed: Handed | None = None,
        on_ending: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare.

        Args:
            handed: the one run that this process is there for; it sweeps nothing and takes no other.
            on_ending: called when the process begins to end, whatever the cause.
        """
        self._on_ending = on_ending
        self._settings = settings
        self._handed = handed
        self._database = database
        self._broker_url = broker_url
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._look = asyncio.Event()
        self._lost = asyncio.Event()
        self._changes = Changes(self._loop, on_other=self._look.set)
        self._writer = JournalWriter(database)
        self._publisher = Publisher(broker_url)
        self._outgoing = Outgoing(self._publisher)
        self._hand_over = HandOver(database, self._publisher, settings.calls_at_once, settings.sweep_seconds)
        self._wakeups = Wakeups(broker_url)
        escalate_seconds = settings.host_escalate_after_seconds
        provers = Provers(database, self._wakeups.tell, escalate_seconds)
        services = RunServices(
            database=database,
            writer=self._writer,
            publish=self._outgoing.publish,
            tell=self._wakeups.tell,
            changes=self._changes,
            calls_at_once=settings.calls_at_once,
            escalate_seconds=escalate_seconds,
            on_held=self._hand_over.told,
            proofs=provers,
            ask_ahead=provers.ask_ahead,
        )
        self._driving = Driving(
            services,
            settings.max_runs,
            pause_seconds=settings.poll_seconds,
            on_ended=self._look.set,
            alone=drive_alone if handed is None else None,
        )
        self._stall = StallWatch(self._loop)
        self._lease = self._new_lease()

    async def serve(self) -> int:
        """Work until `stop`.

        Returns:
            The exit status: 0 after an ordered stop, 1 when a duty of this process broke.
        """
        sweeps = self._start_sweeps() if self._handed is None else []
        self._hand_over.start()
        self._stall.start()
        await asyncio.to_thread(self._lease.start)
        # Subscribed before the first look: what is told from now on is heard.
        await asyncio.to_thread(self._wakeups.subscribe, self._changes.hear)
        log.info("up", scheduler=self._lease.scheduler_id)
        takes = self._take_loop() if self._handed is None else self._drive_handed(self._handed)
        duties = [asyncio.create_task(duty) for duty in (self._tick_loop(), takes, self._poll_loop())]
        asked = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([asked, *duties], return_when=asyncio.FIRST_COMPLETED)
        self._on_ending()
        broke = [duty for duty in duties if duty.done()]
        for duty in (asked, *duties):
            duty.cancel()
        for error in await asyncio.gather(*duties, return_exceptions=True):
            if isinstance(error, Exception):
                log.error("duty_broke", exc_info=error)
        await self._give_back()
        for sweep in sweeps:
            sweep.stop()
        await asyncio.to_thread(self._hand_over.stop)
        await asyncio.to_thread(self._close)
        return 1 if broke else 0

    def stop(self) -> None:
        """End in order: the runs go back, another scheduler takes them at once."""
        self._stopping.set()

    # -- duties ---------------------------------------------------------------------------------------

    async def _take_loop(self) -> None:
        away = False
        while True:
            self._look.clear()
            try:
                if self._lost.is_set():
                    await self._start_over()
                taken = await self._driving.take(self._lease.scheduler_id)
                away = False
            except (StoreError, SQLAlchemyError) as error:
                if not away:
                    log.warning("runs_not_taken", why=str(error))
                taken, away = 0, True
            if not taken:
                await _wait(self._look, self._settings.poll_seconds)

    async def _drive_handed(self, handed: Handed) -> None:
        """Drive the run that was handed over; the process ends with it."""
        taken = await asyncio.to_thread(
            run_leases.take_handed,
            self._database,
            self._lease.scheduler_id,
            handed.run_id,
            handed.scheduler_id,
            handed.epoch,
        )
        if taken is not None:
            await self._driving.drive(taken)
        self.stop()
        await asyncio.Event().wait()

    # -- the lease ------------------------------------------------------------------------------------

    def _new_lease(self) -> Lease:
        def lost() -> None:
            self._loop.call_soon_threadsafe(self._on_lost)

        return Lease(self._database, self._settings.lease_seconds, lost, on_blocked=lambda: leave(BLOCKED_STATUS))

    def _on_lost(self) -> None:
        # Another scheduler has the runs now: nothing of theirs may go on here.
        self._driving.let_all_go()
        self._lost.set()
        self._look.set()

    async def _start_over(self) -> None:
        await self._driving.cancel_all()
        self._lease.stop()
        self._lease = self._new_lease()
        await asyncio.to_thread(self._lease.start)
        self._lost.clear()

    async def _tick_loop(self) -> None:
        while True:
            self._lease.tick()
            self._stall.tick()
            await asyncio.sleep(_TICK_SECONDS)

    async def _poll_loop(self) -> None:
        away = False
        while True:
            await asyncio.sleep(self._settings.poll_seconds)
            seen = self._changes.seen()
            if not seen:
                continue
            try:
                self._changes.polled(await asyncio.to_thread(runs.poll, self._database, seen))
                away = False
            except (StoreError, SQLAlchemyError) as error:
                if not away:
                    log.warning("poll_failed", why=str(error))
                away = True

    # -- start and end --------------------------------------------------------------------------------

    def _start_sweeps(self) -> list[SweepLoop]:
        period = self._settings.sweep_seconds
        publish = SweepLoop(PublishDue(self._database, self._publisher), period)
        rescue = SweepLoop(RescueCalls(self._database, self._settings.lease_seconds), period, after=publish.wake)
        bury = SweepLoop(BurySchedulers(self._database), period, after=lambda: self._changes.hear(""))
        settings, tell = self._settings, self._wakeups.tell
        lose = LoseHosts(self._database, settings.host_lost_after_seconds, tell)
        move = MoveNodes(self._database, settings.lease_seconds, tell)
        sweeps = [publish, rescue, bury, *(SweepLoop(sweep, period, after=publish.wake) for sweep in (lose, move))]
        for sweep in sweeps:
            sweep.start()
        return sweeps

    async def _give_back(self) -> None:
        await self._driving.cancel_all()
        self._lease.stop()
        try:
            await asyncio.to_thread(run_leases.give_back, self._database, self._lease.scheduler_id)
        except (StoreError, SQLAlchemyError) as error:
            log.warning("runs_not_given_back", why=str(error))
        self._wakeups.tell("")

    def _close(self) -> None:
        self._stall.stop()
        self._writer.close()
        self._outgoing.close()
        self._wakeups.close()
        self._publisher.close()
        self._database.close()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)

"""A process knows which runs it drives: what it has by the journal and not by this list, it takes once more."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from scheduler import driving
from scheduler.driving import Driving
from scheduler.flow.services import RunServices
from shared.base.errors import StoreUnavailable
from shared.journal.append import RunLease
from shared.journal.run_leases import TakenRun


class Services:
    """What a drive is given; nothing of it is used here."""

    database = None


def taken(epoch: int) -> TakenRun:
    return TakenRun("r1", RunLease("r1", "s1", epoch, 0), None, 0)


@pytest.mark.req("RULE22", "RULE24")
def test_a_run_that_is_taken_again_before_its_last_drive_is_over_stays_on_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, ...]] = []
    waiting = [taken(1)]
    held = asyncio.Event()
    taken_again = threading.Event()

    def take(_database: Any, _scheduler: str, _limit: int, *, driven: tuple[str, ...]) -> list[TakenRun]:
        asked.append(driven)
        return [waiting.pop()] if waiting else []

    async def drive(run: TakenRun, _services: Any) -> None:
        if run.lease.epoch == 1:
            raise StoreUnavailable("away for a moment")
        await held.wait()

    def let_go(_database: Any, _lease: RunLease, *, broke: bool) -> None:
        assert not broke
        waiting.append(taken(2))
        # It is taken again before whoever let it go hears that it did.
        assert taken_again.wait(5)

    monkeypatch.setattr(driving.run_leases, "take", take)
    monkeypatch.setattr(driving.run_leases, "let_go", let_go)
    monkeypatch.setattr(driving, "drive_run", drive)

    async def scene() -> None:
        drives = Driving(cast(RunServices, Services()), 10, pause_seconds=0.01, on_ended=lambda: None)
        assert await drives.take("s1") == 1
        while not waiting:
            await asyncio.sleep(0)
        assert await drives.take("s1") == 1
        taken_again.set()
        await asyncio.sleep(0.05)
        assert await drives.take("s1") == 0
        await drives.cancel_all()

    asyncio.run(scene())
    assert asked[0] == () and asked[-1] == ("r1",)

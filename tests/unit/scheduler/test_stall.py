"""Sync code that holds the loop up is told with its run and its line, once, while it lasts."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from scheduler import stall
from scheduler.alone import Handed
from scheduler.stall import StallWatch
from shared.base.errors import UsageError


@pytest.mark.req("RULE24")
def test_a_script_that_blocks_the_loop_is_named_with_its_run_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(stall.log, "warning", lambda word, **facts: told.append({"word": word, **facts}), raising=False)

    async def scene() -> None:
        watch = StallWatch(asyncio.get_running_loop())

        async def blocking_script() -> None:
            watch.start()
            time.sleep(1.8)

        await asyncio.create_task(blocking_script(), name="r123")
        watch.tick()
        watch.look()
        watch.stop()

    asyncio.run(scene())
    (stalled,) = told
    assert (stalled["word"], stalled["run"]) == ("loop_stalled", "r123") and stalled["seconds"] >= 1
    assert any("blocking_script" in line for line in stalled["at"])


@pytest.mark.req("RULE24")
def test_what_is_handed_over_is_read_back_and_nothing_else_is() -> None:
    handed = Handed("r1", "s1", 7)
    assert Handed.parse(handed.arguments()) == handed and Handed.parse([]) is None
    for wrong in (["--help"], ["--alone", "r1"], ["--alone", "r1", "s1", "x"]):
        with pytest.raises(UsageError, match="takes no arguments"):
            Handed.parse(wrong)

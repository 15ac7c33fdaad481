"""A run that waits for a silent host says so, and from some minutes on asks people to look."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import scheduler.flow.silence
from shared.journal import runs
from tests.integration.engine.hands import Field, echo

TALK = """
async def main(flow, args):
    first = await flow.agent("begin", role="architect")
    return (await first.call("go on")).output
"""


def set_silent(field: Field, seconds: float) -> None:
    """The lease of the host's worker ran out so long ago."""
    with field.database.engine.begin() as connection:
        connection.exec_driver_sql(
            "update farm_workers set lease_until = clock_timestamp() - %s * interval '1 s'", (seconds,)
        )


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.05)


@pytest.mark.req("RULE27")
def test_a_host_that_stays_silent_is_named_and_two_minutes_on_escalated_once(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler.flow.silence, "LOOK_SECONDS", 0.1)
    run_id = field.submit(TALK)

    async def during(ears: Any) -> None:
        await until(lambda: len(field.calls(run_id, "prepared")) == 2)
        set_silent(field, 60)
        await until(lambda: field.events(run_id, "waiting_for_host"))
        await asyncio.sleep(0.5)
        assert not field.events(run_id, "escalation"), "a restart takes a minute"
        set_silent(field, 121)
        await until(lambda: field.events(run_id, "escalation"))
        await asyncio.sleep(0.5)
        runs.set_stop(field.database, run_id, "cancel")
        ears.hear(run_id, "cancel")

    # The second call goes on in a thread of h1, and nobody there takes it.
    field.drive(lambda prepared: echo(prepared) if prepared.position == 1 else None, during)
    waiting = field.calls(run_id, "prepared")[1].call_id
    (named,) = field.events(run_id, "waiting_for_host")
    (escalation,) = field.events(run_id, "escalation")
    assert named.data["host"] == escalation.data["host"] == "h1"
    assert named.data["calls"] == escalation.data["calls"] == [waiting]
    assert escalation.data["reason"] == "waiting_for_host" and escalation.data["silent_seconds"] >= 121
    assert "crw host lost h1" in escalation.data["ask"]

"""A cancelled run opens nothing more, waits for what is at work and has one end row."""

import asyncio

import pytest

from scheduler.flow.halt import Stopped
from shared.journal import runs
from tests.integration.engine.hands import ended
from tests.integration.engine.scripted import script


@pytest.mark.req("RULE28")
def test_cancel_withdraws_what_nobody_claimed_waits_for_the_rest_and_writes_one_end(field):
    run_id = field.submit(
        script(
            """
async def lane(n):
    try:
        await flow.crw.noop(n=n)
    finally:
        await flow.crw.noop(n="after")
await flow.parallel([lane(n) for n in range(3)])
"""
        )
    )
    left = iter([[], None, None])

    async def during(ears):
        while len(field.calls(run_id, "prepared")) < 3 or not field.kept:
            await asyncio.sleep(0.02)
        await asyncio.to_thread(runs.set_stop, field.database, run_id, "cancel")
        ears.hear(run_id, "cancel")
        while not field.calls(run_id, "withdrawn"):
            await asyncio.sleep(0.02)
        assert not field.events(run_id, "finished")
        field.hand_writer.append(field.kept[0], *ended("held", "cancelled"))
        ears.hear(run_id)

    field.drive(lambda prepared: next(left), during)
    end = field.end(run_id)
    assert (end["status"], end["error_kind"], end["by"]) == ("script_error", "cancelled", "operator")
    assert len(field.calls(run_id, "prepared")) == 3
    assert len(field.calls(run_id, "withdrawn")) == 2 and len(field.calls(run_id, "held")) == 1


def test_a_run_cancelled_before_it_was_taken_opens_nothing(field):
    run_id = field.submit(script("await flow.crw.noop()"))
    runs.set_stop(field.database, run_id, "cancel")
    field.drive()
    assert field.end(run_id)["error_kind"] == "cancelled" and not field.calls(run_id, "prepared")


def test_a_stopped_script_opens_nothing_whatever_it_catches(field):
    run_id = field.submit(
        script(
            """
try:
    await flow.crw.noop()
except BaseException:
    flow.log("caught")
    await flow.crw.noop(n="after")
"""
        )
    )

    async def during(ears):
        while not field.calls(run_id, "prepared"):
            await asyncio.sleep(0.02)
        ears.hear(run_id, "cancel")

    field.drive(lambda prepared: None, during)
    assert not issubclass(Stopped, Exception)
    assert field.end(run_id)["error_kind"] == "cancelled" and len(field.calls(run_id, "prepared")) == 1
    assert not field.events(run_id, "log")


def test_a_call_that_its_worker_ended_for_the_cancel_is_no_failure_of_the_script(field):
    run_id = field.submit(script("(await flow.crw.noop()).require()"))

    async def during(ears):
        while not field.kept:
            await asyncio.sleep(0.02)
        await asyncio.to_thread(runs.set_stop, field.database, run_id, "cancel")
        # The worker looks at the stop more often than the scheduler does, which hears of the row alone.
        field.hand_writer.append(field.kept[0], *ended("held", "cancel"))
        ears.hear(run_id)

    field.drive(lambda prepared: [], during)
    end = field.end(run_id)
    assert (end["status"], end["error_kind"]) == ("script_error", "cancelled")

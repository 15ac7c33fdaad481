"""What was withdrawn never began: what stood there before it still says what the position does."""

import asyncio

import pytest

from shared.journal import runs
from tests.integration.engine.test_held import LANE, go_on, held_once, said
from tests.integration.engine.test_suffix import work
from tests.integration.engine.verdicts import GONE, Verdicts


def openings(field, run_id):
    return [*field.calls(run_id, "prepared"), *field.calls(run_id, "hold_cleared")]


def withdraw(field, run_id, position):
    """Resume the run, and cancel it when the call at a position waits for a worker that never comes."""
    field.resume(run_id)
    before = len(openings(field, run_id))

    async def during(ears):
        while len(openings(field, run_id)) == before:
            await asyncio.sleep(0.02)
        runs.set_stop(field.database, run_id, "cancel")
        ears.hear(run_id, "cancel")

    field.drive(lambda prepared: None, during)
    assert [row.position for row in field.calls(run_id, "withdrawn")] == [position]


@pytest.mark.req("R40", "R41")
def test_a_held_call_whose_going_on_was_withdrawn_is_still_held(field):
    run_id = field.submit(LANE)
    field.drive(held_once)
    withdraw(field, run_id, 1)
    field.resume(run_id)
    field.proofs = verdicts = Verdicts()
    field.drive(lambda prepared: go_on(prepared) if prepared.detail["prompt"] == "build" else work(prepared))
    assert field.end(run_id)["result"] == ['"built"', said("fix")]
    assert [row.attempt for row in field.calls(run_id, "hold_cleared")] == [1, 2]
    assert len([row for row in field.calls(run_id, "prepared") if row.position == 1]) == 1
    assert "main:1" in verdicts.asked
    (done,) = [row for row in field.calls(run_id, "completed") if row.position == 1]
    assert (done.request_id, done.attempt) == (field.calls(run_id, "held")[0].request_id, 2)


@pytest.mark.req("R22", "R25")
def test_a_position_of_a_suffix_that_was_withdrawn_is_still_of_the_suffix(field):
    script = """
async def main(flow, args):
    build = await flow.agent("build", role="executor", node="a")
    fix = await build.call("fix")
    return fix.output
"""
    run_id = field.submit(script)
    field.drive(work)
    field.proofs = Verdicts(unproven={"main:2": GONE})
    withdraw(field, run_id, 2)
    field.proofs = Verdicts()
    field.resume(run_id)
    field.drive(work)
    again = [row for row in field.calls(run_id, "prepared") if row.position == 2]
    assert [row.attempt for row in again] == [0, 1, 2]
    # The thread and the worktree hold what the superseded attempt did: it forks, in a restored one.
    assert again[1].detail["context"]["how"] == "fork" and "boundary" in again[1].detail
    assert again[2].detail["context"].get("how") == "fork" and "boundary" in again[2].detail

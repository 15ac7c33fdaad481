"""A script that takes its scheduler along is set aside; the third scheduler and its other runs never feel it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.journal import runs
from tests.acceptance.farm.flows import LANES
from tests.acceptance.farm.test_kills import check_lanes
from tests.farm import Farm
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

DEADLY = """
import os
async def main(flow, args):
    os._exit(9)
"""
# It is deadly for two schedulers only.
MENDED = """
import os, pathlib
async def main(flow, args):
    mark = pathlib.Path(args["mark"])
    tries = len(mark.read_text()) if mark.exists() else 0
    mark.write_text("x" * (tries + 1))
    if tries < 2:
        os._exit(9)
    return [tries, await flow.crw.noop(value=1)]
"""


def lose_two_schedulers(farm: Farm, run_id: str) -> None:
    for name in ("s1", "s2"):
        scheduler = farm.start_scheduler(name)
        wait_until(lambda scheduler=scheduler: not scheduler.alive, 30, f"{name} to die of the script")


@pytest.mark.slow
@pytest.mark.req("RULE24")
def test_a_run_that_killed_two_schedulers_is_driven_in_a_child_process_and_then_quarantined(farm: Farm) -> None:
    run_id = farm.submit(DEADLY)
    lose_two_schedulers(farm, run_id)
    third, worker = farm.start_scheduler("s3"), farm.start_worker("h1")
    other = farm.submit(LANES, {"lanes": 2, "steps": 6, "seconds": 0.2})

    def is_set_aside() -> bool:
        state = runs.run_state(farm.database, run_id)
        return state is not None and state.state == "quarantined"

    wait_until(is_set_aside, 40, "the run to be quarantined")
    assert third.said("driven_alone") and third.alive
    check_lanes(farm, other, 2, 6)
    assert not third.said("run_lost") and worker.alive


@pytest.mark.req("RULE24")
def test_a_run_that_goes_on_in_its_child_process_ends_there(farm: Farm, tmp_path: Path) -> None:
    run_id = farm.submit(MENDED, {"mark": str(tmp_path / "mark")})
    lose_two_schedulers(farm, run_id)
    third = farm.start_scheduler("s3")
    farm.start_worker("h1")
    assert farm.wait_finished(run_id, 60).data["result"] == [2, {"value": 1}]
    assert third.said("driven_alone") and third.alive


@pytest.mark.slow
@pytest.mark.req("RULE24", "K72", "X16")
def test_an_ordered_stop_gives_the_child_s_run_back(farm: Farm, tmp_path: Path) -> None:
    waiting = MENDED.replace("return [tries", "await flow.sleep(8)\n    return [tries")
    run_id = farm.submit(waiting, {"mark": str(tmp_path / "mark")})
    lose_two_schedulers(farm, run_id)
    third = farm.start_scheduler("s3")
    wait_until(lambda: third.said("driven_alone") and farm.call_rows(run_id, "completed"), 40, "the child at work")
    assert third.terminate(20) == 0
    state = runs.run_state(farm.database, run_id)
    assert state is not None and (state.state, state.scheduler_id) == ("queued", None)
    farm.start_scheduler("s4")
    farm.start_worker("h1")
    assert farm.wait_finished(run_id, 60).data["status"] == "completed"

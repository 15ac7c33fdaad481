"""What a script leaves in its scheduler's process does not keep that process alive.

Schedulers here are processes of their own, down to the interpreter's end, where threads are waited for.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from shared.journal import runs
from tests.farm import Farm
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(90)

# A thread that the interpreter waits for, and one that the loop's own end waits for.
THREADS = """
import asyncio, threading, time
async def main(flow, args):
    threading.Thread(target=time.sleep, args=(600,)).start()
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
    asyncio.get_running_loop().call_later(args["seconds"], EXITS[args["how"]])
    await flow.sleep(600)

def leave():
    raise SystemExit(0)

EXITS = {"stay": lambda: None, "leave": leave}
"""
SPINNING = """
async def main(flow, args):
    while True:
        pass
"""
Scheduler = subprocess.Popen[bytes]


@pytest.fixture
def start_scheduler(farm: Farm) -> Iterator[Callable[[], Scheduler]]:
    started: list[Scheduler] = []

    def start() -> Scheduler:
        with open(farm.directory / "scheduler.log", "ab") as log:
            argv = [sys.executable, "-m", "tests.farm_scheduler"]
            started.append(subprocess.Popen(argv, env=farm.env(), stdout=log, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for_sleep(farm: Farm, run_id: str) -> None:
    wait_until(lambda: farm.call_rows(run_id, "completed"), 30, "the script to have started its threads")


def test_threads_that_never_end_do_not_keep_a_scheduler_from_an_ordered_stop(
    farm: Farm, start_scheduler: Callable[[], Scheduler]
) -> None:
    run_id = farm.submit(THREADS, {"seconds": 0, "how": "stay"})
    scheduler = start_scheduler()
    wait_for_sleep(farm, run_id)
    scheduler.send_signal(signal.SIGTERM)
    assert scheduler.wait(20) == 0
    state = runs.run_state(farm.database, run_id)
    assert state is not None and (state.state, state.scheduler_id) == ("queued", None)


def test_a_callback_that_leaves_the_loop_ends_the_process_and_the_supervisor_hears_of_it(
    farm: Farm, start_scheduler: Callable[[], Scheduler]
) -> None:
    run_id = farm.submit(THREADS, {"seconds": 1.5, "how": "leave"})
    scheduler = start_scheduler()
    wait_for_sleep(farm, run_id)
    assert scheduler.wait(30) == 1


def test_a_script_that_blocks_the_loop_does_not_keep_a_scheduler_from_an_ordered_stop(
    farm: Farm, start_scheduler: Callable[[], Scheduler]
) -> None:
    farm.submit(SPINNING)
    scheduler = start_scheduler()
    log = farm.directory / "scheduler.log"
    wait_until(lambda: "loop_stalled" in log.read_text(errors="replace"), 30, "the script to block the loop")
    scheduler.send_signal(signal.SIGTERM)
    assert scheduler.wait(25) == 4
    assert "end_forced" in log.read_text(errors="replace")

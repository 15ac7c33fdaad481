"""Recorded positions replayed a second, against DBOS' replayed steps.

Ours counts from the moment a scheduler has taken the run: loading its rows, loading
the script, every position of it up to the first one that is not recorded.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from contextlib import closing
from pathlib import Path

from scheduler.changes import Changes
from scheduler.flow.services import RunServices
from scheduler.run import drive_run
from shared.broker.publish import Publisher
from shared.broker.wakeups import Wakeups
from shared.journal import hosts, run_leases
from shared.journal.append import JournalWriter
from shared.model.ops import NOOP, register
from shared.model.spec import FORMAT
from tests.benchmarks.bench import REPETITIONS, Bench, Figure, ratio
from tests.farm import Farm
from tests.waiting import wait_until

LANES, STEPS = 20, 50

# The script tells when it has come to the first position that waits; a flow of a user never writes files.
FLOW = """
import time

async def main(flow, args):
    async def lane():
        for n in range(args["steps"]):
            (await flow.crw.noop(value=n)).require()
    await flow.parallel({str(n): lane() for n in range(args["lanes"])})
    with open(args["mark"], "a") as marks:
        print(time.perf_counter(), file=marks)
    await flow.crw.noop(seconds=3600)
"""


def replay(bench: Bench) -> list[Figure]:
    """Positions replayed a second."""
    ours, theirs = [], []
    with closing(bench.farm()) as farm, closing(bench.dbos_peer()) as durable:
        mark = farm.directory / "marks"
        run_id = _record(farm, mark)
        for repetition in range(REPETITIONS + 1):
            taken = asyncio.run(_replay_once(farm, run_id, mark)), durable.ask("replay", LANES * STEPS)
            if repetition:
                ours.append(taken[0])
                theirs.append(taken[1])
    return [ratio("replay_vs_dbos", ours, theirs, bar=10, at_least=True, unit="positions/s")]


def _record(farm: Farm, mark: Path) -> str:
    worker, scheduler = farm.start_worker(concurrency=16), farm.start_scheduler()
    farm.wait_up(worker, scheduler)
    run_id = farm.submit(FLOW, {"lanes": LANES, "steps": STEPS, "mark": str(mark)})
    wait_until(mark.exists, 120, "the positions to be recorded")
    # In order: the run is free to be taken, the waiting call stays the worker's.
    scheduler.terminate()
    return run_id


async def _replay_once(farm: Farm, run_id: str, mark: Path) -> float:
    register(NOOP)
    scheduler_id = str(uuid.uuid4())
    hosts.register_scheduler(farm.database, scheduler_id, 600, machine="bench", pid=os.getpid(), version=FORMAT)
    [taken] = run_leases.take(farm.database, scheduler_id, 1)
    assert taken.run_id == run_id
    passed = len(mark.read_text().splitlines())
    with (
        closing(JournalWriter(farm.database)) as writer,
        closing(Publisher(farm.valkey.url)) as publisher,
        closing(Wakeups(farm.valkey.url)) as wakeups,
    ):
        services = RunServices(
            database=farm.database,
            writer=writer,
            publish=publisher.send,
            tell=wakeups.tell,
            changes=Changes(asyncio.get_running_loop()),
        )
        started = time.perf_counter()
        driving = asyncio.create_task(drive_run(taken, services))
        while len(marks := mark.read_text().splitlines()) == passed:
            assert not driving.done(), driving
            await asyncio.sleep(0.02)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        run_leases.let_go(farm.database, taken.lease, broke=False)
    return LANES * STEPS / (float(marks[-1]) - started)

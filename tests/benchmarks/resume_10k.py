"""A run of ten thousand recorded positions resumed: rows, walk and the proofs of its host, against DBOS' replay.

Ours counts from the moment a scheduler has taken the run to the first position that is
not recorded; in between a worker process is asked what git says of four hundred
worktrees, some of them with work that no commit carries.
"""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import closing

from scheduler.changes import Changes
from scheduler.flow.services import RunServices
from scheduler.resume.proving import Provers
from scheduler.run import drive_run
from shared.base.garbage import collect_seldom
from shared.broker.publish import Publisher
from shared.broker.wakeups import Wakeups
from shared.journal import run_leases
from shared.journal.append import JournalWriter
from tests.benchmarks.bench import REPETITIONS, Bench, Figure, ratio
from tests.benchmarks.recorded import HOST, Recorded

LANES, UNSETTLED = 400, 4


def resume_10k(bench: Bench) -> list[Figure]:
    """Recorded positions resumed a second."""
    ours, theirs = [], []
    # As every scheduler does when it starts.
    collect_seldom()
    with closing(bench.farm(poll_seconds=0.5)) as farm, closing(bench.dbos_peer()) as durable:
        recorded = Recorded(farm, LANES, UNSETTLED)
        farm.wait_up(farm.start_worker(HOST))
        for repetition in range(REPETITIONS + 1):
            # What the repetition before left in cycles is not of this one.
            gc.collect()
            seconds = asyncio.run(resume_once(recorded))
            rate = durable.ask("replay_again", recorded.positions)
            if repetition:
                ours.append(recorded.positions / seconds)
                theirs.append(rate)
    limits = (
        "one interpreter reads the rows and walks them while the host's worker reads and judges what it needs of them "
        "on the other core; both are processor time, of which git is a small part"
    )
    return [
        ratio("resume_10k_vs_dbos", ours, theirs, bar=20, at_least=True, unit="positions/s", limits=limits),
    ]


async def resume_once(recorded: Recorded) -> float:
    """Seconds from the take to the first position that waits."""
    farm = recorded.farm
    taken = recorded.take()
    passed = len(recorded.mark.read_text().splitlines())
    with (
        closing(JournalWriter(farm.database)) as writer,
        closing(Publisher(farm.valkey.url)) as publisher,
        closing(Wakeups(farm.valkey.url)) as wakeups,
    ):
        changes = Changes(asyncio.get_running_loop())
        provers = Provers(farm.database, wakeups.tell)
        services = RunServices(
            farm.database, writer, publisher.send, wakeups.tell, changes, provers, ask_ahead=provers.ask_ahead
        )
        started = time.perf_counter()
        driving = asyncio.create_task(drive_run(taken, services))
        while len(marks := recorded.mark.read_text().splitlines()) == passed:
            assert not driving.done(), driving
            await asyncio.sleep(0.02)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        run_leases.let_go(farm.database, taken.lease, broke=False)
    return float(marks[-1]) - started

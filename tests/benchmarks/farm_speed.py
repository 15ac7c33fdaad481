"""What a position costs on the farm, against bare Celery and DBOS."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from statistics import median

from sqlalchemy import text

from shared.broker.wakeups import Wakeups
from shared.journal import runs
from tests.benchmarks.bench import REPETITIONS, Bench, Figure, ratio
from tests.farm import Farm
from tests.waiting import wait_until

FAN_OUT = 500
SEQUENCE = 100

FAN_OUT_FLOW = """
async def main(flow, args):
    async def one(value):
        return (await flow.crw.noop(value=value)).require()["value"]
    return len(await flow.parallel({str(n): one(n) for n in range(args["count"])}))
"""

SEQUENCE_FLOW = """
async def main(flow, args):
    for n in range(args["count"]):
        (await flow.crw.noop(value=n)).require()
"""


def fan_out(bench: Bench) -> list[Figure]:
    """Positions a second of a join of 500, from the submit to the run's end."""
    ours, celery, dbos = [], [], []
    with closing(bench.farm()) as farm, closing(bench.celery_peer()) as bare, closing(bench.dbos_peer()) as durable:
        _start(farm)
        for repetition in range(REPETITIONS + 1):
            taken = _positions_a_second(farm), bare.ask("fanout", FAN_OUT), durable.ask("fanout", FAN_OUT)
            if repetition:  # the first one warms up
                for series, value in zip((ours, celery, dbos), taken, strict=True):
                    series.append(value)
    unit = "positions/s"
    bare_ratio = median(celery) / median(dbos)
    return [
        ratio(
            "fanout_vs_celery", ours, celery, bar=0.5, at_least=True, unit=unit,
            limits="Postgres works on the same cores: a share of a commit for each claim and each row",
        ),
        ratio(
            "fanout_vs_dbos", ours, dbos, bar=3.5, at_least=True, unit=unit,
            limits=f"bare Celery, with tasks that do nothing, runs {bare_ratio:.1f} times as many as DBOS here; "
            "a position is such a task and its rows on top",
        ),
    ]  # fmt: skip


def sequential(bench: Bench) -> list[Figure]:
    """Median latency of one position after the other."""
    ours, celery = [], []
    with closing(bench.farm()) as farm, closing(bench.celery_peer()) as bare:
        _start(farm)
        for repetition in range(REPETITIONS + 1):
            taken = _position_seconds(farm) * 1000, bare.ask("roundtrip", SEQUENCE) * 1000
            if repetition:
                ours.append(taken[0])
                celery.append(taken[1])
    limits = "three synchronous commits a position (prepared, claim, completed) where a bare round trip has none"
    return [ratio("sequential_p50_vs_celery", ours, celery, bar=3, at_least=False, unit="ms", limits=limits)]


def _start(farm: Farm) -> None:
    farm.wait_up(farm.start_worker(concurrency=16), farm.start_scheduler())


def _run(farm: Farm, flow: str, count: int) -> str:
    """Run a flow to its end as a client does: told to the schedulers, and waited for without reading its rows.

    Reading all rows over and over while a run goes on costs more than the run.
    """
    run_id = farm.submit(flow, {"count": count})
    with closing(Wakeups(farm.valkey.url)) as wakeups:
        wakeups.tell(run_id)
        wait_until(lambda: _ended(farm, run_id), 120, "the run to end")
    finished = farm.finished(run_id)
    assert finished is not None and finished.data["status"] == "completed", finished
    return run_id


def _ended(farm: Farm, run_id: str) -> bool:
    state = runs.run_state(farm.database, run_id)
    return state is not None and state.state == "ended"


def _positions_a_second(farm: Farm) -> float:
    run_id = _run(farm, FAN_OUT_FLOW, FAN_OUT)
    seconds = text("select extract(epoch from ended_at - submitted_at) from flow_runs where run_id = :run")
    with farm.database.transaction() as connection:
        return FAN_OUT / float(connection.execute(seconds, {"run": run_id}).scalar_one())


def _position_seconds(farm: Farm) -> float:
    run_id = _run(farm, SEQUENCE_FLOW, SEQUENCE)
    opened = [row.written_at for row in farm.call_rows(run_id, "prepared")]
    return median((later - earlier).total_seconds() for earlier, later in pairwise(opened))

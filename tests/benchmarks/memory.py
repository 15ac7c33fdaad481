"""What an agent call that waits for its turn costs the worker process in memory."""

from __future__ import annotations

import json
from contextlib import closing
from statistics import median

import psutil

from shared.journal.runs import set_stop
from shared.model.roles import Role
from tests.benchmarks.bench import REPETITIONS, Bench, Figure
from tests.fakehost.install import install
from tests.farm import Farm
from tests.repositories import git, make_bare_hub
from tests.waiting import wait_until

CALLS = 50
_HANGS = "[[steps:" + json.dumps([{"hang": True}]) + "]]"
_FLOW = f"""
async def main(flow, args):
    async def one(number):
        return (await flow.agent({_HANGS!r}, role="reviewer")).status
    return await flow.parallel({{str(number): one(number) for number in range(args["count"])}})
"""


def waiting_calls(bench: Bench) -> list[Figure]:
    """KiB of the worker process's own memory (USS) for each of 50 agent calls whose turns run on the fake host."""
    samples = []
    for _ in range(REPETITIONS):
        with closing(bench.farm()) as farm:
            samples.append(_kib_a_call(farm))
    value = median(samples)
    return [Figure("kib_per_call", value, 1024, False, value, 1024, "KiB", {"ours": samples})]


def _kib_a_call(farm: Farm) -> float:
    """One measurement, in a fresh worker: memory that an earlier call has given back would hide the next one's."""
    fake = install(farm.directory)
    hub = make_bare_hub(farm.directory / "hub.git")
    worker = farm.start_worker(concurrency=CALLS + 1, codex_bin=fake.program, codex_config='{"model_provider": "fake"}')
    farm.wait_up(worker, farm.start_scheduler())
    role = Role("reviewer", "m", "low", "read-only", "")
    spec = {"hub": str(hub), "base": git(hub, "rev-parse", "main"), "roles": {"reviewer": role}}
    # The first call pays for what is loaded once: the App Server's client, the mirror, git.
    _wait_for_turns(farm, farm.submit(_FLOW, {"count": 1}, **spec), 1)
    before = _own_bytes(worker.pid)
    run_id = farm.submit(_FLOW, {"count": CALLS}, **spec)
    _wait_for_turns(farm, run_id, CALLS)
    after = _own_bytes(worker.pid)
    set_stop(farm.database, run_id, "cancel")
    return (after - before) / CALLS / 1024


def _wait_for_turns(farm: Farm, run_id: str, count: int) -> None:
    wait_until(lambda: len(farm.call_rows(run_id, "turn_started")) >= count, 120, f"{count} turns to start")


def _own_bytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_full_info().uss)

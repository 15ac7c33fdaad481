"""A farm that is restarted process by process under load ends with the result of an undisturbed one."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import pytest

from shared.base.canonical import digest_json
from tests.acceptance.farm.agents import SCHEMA, agent_spec, prompt, say, worker_settings
from tests.acceptance.farm.test_cancel import cancel, check_cancelled
from tests.fakehost.install import FakeHost, install
from tests.farm import Farm, Process
from tests.repositories import make_bare_hub
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(240)

LOAD = f"""
async def main(flow, args):
    async def lane(n):
        said = []
        for step in range(args["steps"]):
            await flow.crw.noop(value=step, seconds=0.3)
            done = await flow.agent(args["prompts"][n][step], role="executor", node=f"n{{n}}", schema={SCHEMA!r})
            said.append(done.require()["summary"])
            head = await flow.crw.commit(node=f"n{{n}}", message=f"step {{step}}")
            checked = await flow.crw.verify(node=f"n{{n}}", head=head["commit"], command="sleep 0.5; cat README.md")
            said.append([checked["passed"], checked["exit_status"]])
        return said
    return await flow.parallel({{str(n): lane(n) for n in range(len(args["prompts"]))}})
"""
# A turn that outlasts the drain of a worker, so that some are cut short by the restart.
TURN_SECONDS = 5
LANES, STEPS = 4, 5
# Nobody's lease runs out in the test: what goes on is what was given back.
LONG_LEASE_SECONDS = 120


def load(lanes: int, steps: int) -> dict[str, object]:
    prompts = [
        [prompt({**say(f"lane {n} step {step}"), "before": TURN_SECONDS if (n + step) % 2 else 0.2})
         for step in range(steps)]
        for n in range(lanes)
    ]  # fmt: skip
    return {"prompts": prompts, "steps": steps}


def expected(lanes: int, steps: int) -> dict[str, list[object]]:
    return {
        str(n): [word for step in range(steps) for word in (f"lane {n} step {step}", [True, 0])] for n in range(lanes)
    }


def turns_by_operation(fake: FakeHost) -> list[str]:
    return [frame["params"]["clientUserMessageId"] for frame in fake.requests("turn/start")]


@pytest.mark.slow
@pytest.mark.req("K72", "RULE34", "X16")
def test_a_rolling_restart_of_the_whole_farm_under_load_changes_no_outcome(farm: Farm, tmp_path: Path):
    hub = make_bare_hub(tmp_path / "hub.git")
    fakes = {host: install(tmp_path / host) for host in ("h1", "h2")}
    running: dict[str, Process] = {}

    def start(name: str) -> Process:
        if name in fakes:
            return farm.start_worker(
                name, concurrency=3, lease_seconds=LONG_LEASE_SECONDS, **worker_settings(fakes[name])
            )
        return farm.start_scheduler(name, lease_seconds=LONG_LEASE_SECONDS)

    names = ("h1", "s1", "h2", "s2")
    running = {name: start(name) for name in names}
    farm.wait_up(*running.values(), deadline_seconds=60)
    run_id = farm.submit(LOAD, load(LANES, STEPS), **agent_spec(hub))
    wait_until(lambda: farm.call_rows(run_id, "turn_started"), 30, "turns")
    for name in itertools.islice(itertools.cycle(names), 8):
        if farm.finished(run_id):
            break
        done = len(farm.rows(run_id))
        assert running[name].terminate(60) == 0
        running[name] = start(name)
        farm.wait_up(running[name], deadline_seconds=60)
        wait_until(lambda done=done: len(farm.rows(run_id)) > done + 3 or farm.finished(run_id), 60, "progress")
    end = farm.wait_finished(run_id, 120)
    assert end.data["status"] == "completed", end.data
    assert digest_json(end.data["result"]) == digest_json(expected(LANES, STEPS))
    farm.check_rows(run_id)
    assert not farm.call_rows(run_id, "held", "outcome_unknown")
    asked = [operation for fake in fakes.values() for operation in turns_by_operation(fake)]
    assert len(asked) == len(set(asked)), "no turn was sent twice"
    crashes = farm.database.fetch("select max(crashes) from call_claims", {})
    assert crashes == [(0,)], "an ordered stop is no crash"


@pytest.mark.slow
@pytest.mark.req("K72", "RULE34", "A17")
def test_a_cancel_is_heard_by_a_worker_that_drains(farm: Farm, tmp_path: Path):
    hub, fake = make_bare_hub(tmp_path / "hub.git"), install(tmp_path)
    worker = farm.start_worker("h1", drain_seconds=60, **worker_settings(fake))
    farm.wait_up(farm.start_scheduler(), worker)
    args = {"prompts": [[prompt({"hang": True})]], "steps": 1}
    run_id = farm.submit(LOAD, args, **agent_spec(hub))
    wait_until(lambda: farm.call_rows(run_id, "user_message_seen"), 30, "a turn")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: worker.said('"stopping"'), 10, "the drain to begin")
    assert cancel(farm, run_id).wait(40) == 0
    check_cancelled(farm, run_id)
    assert worker.wait(20) == 0

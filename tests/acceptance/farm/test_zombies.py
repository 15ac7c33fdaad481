"""Workers that wake up after their lease: they write no row, move no ref and add no turn."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.acceptance.farm.agents import SCHEMA, agent_spec, prompt, say, worker_settings
from tests.acceptance.farm.test_cancel import cancel, check_cancelled
from tests.fakehost.install import install
from tests.farm import LEASE_SECONDS, Farm
from tests.repositories import commit_files, git, make_bare_hub
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(150)

INTEGRATE = """
async def main(flow, args):
    return await flow.crw.integrate(heads=args["heads"], target="goal")
"""
AGENT = f"""
async def main(flow, args):
    done = await flow.agent(args["prompt"], role="executor", node="n", schema={SCHEMA!r})
    return [done.status, done.output]
"""
# The first push to the target hangs on the hub until it is released; a push of the guard alone passes.
SLOW_HUB = """#!/bin/sh
grep -q refs/heads/goal || exit 0
mkdir "{place}/first" 2>/dev/null || exit 0
while [ ! -e "{place}/go" ]; do sleep 0.1; done
"""


class SlowHub:
    """A hub on which the first push to `goal` hangs."""

    def __init__(self, directory: Path) -> None:
        self.path = make_bare_hub(directory / "hub.git")
        self.place = directory
        hook = self.path / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(SLOW_HUB.format(place=directory))
        hook.chmod(0o755)

    def submit(self, farm: Farm) -> str:
        head = commit_files(self.path.with_name(self.path.name + "-work"), {"lane.txt": "x\n"})
        git(self.path.with_name(self.path.name + "-work"), "push", "-q", str(self.path), f"{head}:refs/heads/lane")
        run_id = farm.submit(INTEGRATE, {"heads": {"n": head}}, **agent_spec(self.path))
        wait_until((self.place / "first").exists, 30, "the push to hang on the hub")
        return run_id

    def target(self) -> str:
        return git(self.path, "rev-parse", "--verify", "-q", "refs/heads/goal", check=False)

    def release(self) -> None:
        """Let the push go on and wait until the hub is through with it."""
        (self.place / "go").touch()
        wait_until(lambda: not list(self.path.glob("objects/tmp_objdir-*")), 20, "the hub to be through")


def pause(seconds: float) -> None:
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > until, seconds + 5, "a while to pass")


@pytest.mark.req("RULE7", "RULE27")
def test_a_push_that_was_under_way_moves_no_target_after_a_cancel(farm: Farm, tmp_path: Path):
    hub = SlowHub(tmp_path)
    worker = farm.start_worker("h1")
    farm.wait_up(farm.start_scheduler(), worker, deadline_seconds=60)
    run_id = hub.submit(farm)
    worker.signal(signal.SIGSTOP)
    assert cancel(farm, run_id, "--wait", str(2 * LEASE_SECONDS)).wait(60) == 0
    check_cancelled(farm, run_id)
    (unknown,) = farm.call_rows(run_id, "outcome_unknown")
    assert unknown.detail["reason"] == "cancel" and "guard_error" not in unknown.detail
    rows = farm.rows(run_id)
    worker.signal(signal.SIGCONT)
    hub.release()
    pause(1)
    assert hub.target() == "", "the cancelled run moved the target"
    assert farm.rows(run_id) == rows


@pytest.mark.req("RULE7", "O21")
def test_a_push_that_was_under_way_moves_no_target_after_a_takeover(farm: Farm, tmp_path: Path):
    hub = SlowHub(tmp_path)
    worker = farm.start_worker("h1")
    farm.wait_up(farm.start_scheduler(), worker, deadline_seconds=60)
    run_id = hub.submit(farm)
    worker.kill()
    farm.wait_up(farm.start_worker("h1"))
    end = farm.wait_finished(run_id, 60)
    assert end.data["result"]["merged"] and hub.target() == end.data["result"]["commit"]
    # Somebody takes the result back; what is still under way must not bring it again.
    git(hub.path, "update-ref", "-d", "refs/heads/goal")
    hub.release()
    pause(1)
    assert hub.target() == ""


@pytest.mark.req("RULE4", "RULE7")
@pytest.mark.parametrize("point", ["after:turn_requested", "before:turn_requested"])
def test_a_worker_that_wakes_up_after_its_lease_adds_no_turn_and_no_row(farm: Farm, tmp_path: Path, point: str):
    fake, hub = install(tmp_path), make_bare_hub(tmp_path / "hub.git")
    settings = worker_settings(fake)
    frozen = farm.start_worker("h1", stop_at=point, **settings)
    farm.wait_up(farm.start_scheduler(), frozen, deadline_seconds=60)
    run_id = farm.submit(AGENT, {"prompt": prompt(say("done"))}, **agent_spec(hub))
    wait_until(lambda: farm.processes and is_frozen(frozen.pid), 60, f"the worker to freeze {point}")
    wait_until(lambda: farm.database.fetch("select 1 from call_claims where state = 'stranded'", {}), 30, "its burial")
    rows = farm.rows(run_id)
    frozen.signal(signal.SIGCONT)
    assert frozen.wait(20) == 3, "it was declared dead and ends"
    assert farm.rows(run_id) == rows
    assert not fake.requests("turn/start")


def is_frozen(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

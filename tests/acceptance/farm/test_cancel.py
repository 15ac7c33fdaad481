"""A cancel on a running farm: turns interrupted, commands killed, nothing sent afterwards, one end."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import psutil
import pytest

from shared.journal import runs
from tests.acceptance.farm.agents import SCHEMA, agent_spec, prompt, worker_settings
from tests.acceptance.programs import CRW
from tests.fakehost.install import install
from tests.farm import ROOT, Farm
from tests.repositories import git, make_bare_hub
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(150)

AGENTS = f"""
async def main(flow, args):
    async def lane(n):
        return await flow.agent(args["prompt"], role="executor", node=f"n{{n}}", schema={SCHEMA!r}, label=f"lane {{n}}")
    lanes = {{str(n): lane(n) for n in range(2)}}
    return await flow.parallel(lanes)
"""
VERIFY = """
async def main(flow, args):
    async def check(n):
        return await flow.crw.verify(node=f"n{n}", head=args["head"], command=args["command"])
    return await flow.parallel({str(n): check(n) for n in range(2)})
"""


def cancel(farm: Farm, run_id: str, *options: str) -> subprocess.Popen[str]:
    """`crw flow cancel` in a process of its own."""
    return subprocess.Popen(
        [*CRW, "flow", "cancel", run_id, *options],
        env=farm.env(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def check_cancelled(farm: Farm, run_id: str) -> None:
    end = farm.wait_finished(run_id)
    assert (end.data["status"], end.data["error_kind"], end.data["by"]) == ("script_error", "cancelled", "operator")
    assert farm.rows(run_id)[-1].seq == end.seq, "the finished row is the last"
    farm.check_rows(run_id)


def runs_still(pid: int) -> bool:
    """Whether the process is more than a record that its parent has not read."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.req("A17", "C19", "X05", "J18", "RULE28")
def test_turns_are_interrupted_and_no_frame_with_an_effect_follows_the_stop(farm: Farm, tmp_path: Path):
    fake, hub = install(tmp_path), make_bare_hub(tmp_path / "hub.git")
    farm.wait_up(farm.start_scheduler(), farm.start_worker("h1", concurrency=1, **worker_settings(fake)))
    run_id = farm.submit(AGENTS, {"prompt": prompt({"hang": True})}, **agent_spec(hub))
    wait_until(lambda: farm.call_rows(run_id, "user_message_seen"), 30, "a turn")
    started = time.monotonic()
    commands = [cancel(farm, run_id) for _ in range(4)]
    assert [command.wait(60) for command in commands] == [0] * 4
    assert time.monotonic() - started < 20
    check_cancelled(farm, run_id)
    (held,) = farm.call_rows(run_id, "held")
    assert held.detail["reason"] == "cancel" and len(farm.call_rows(run_id, "withdrawn")) == 1
    words = [row.event for row in farm.call_rows(run_id) if row.call_id == held.call_id]
    assert words.index("interrupt_requested") < words.index("interrupted") < words.index("held")
    assert len(fake.requests("turn/start")) == 1 and len(fake.requests("thread/start")) == 1
    assert [row for row in farm.rows(run_id) if getattr(row, "kind", "") == "cancel_waiting"] == []


@pytest.mark.req("RULE28", "J03")
def test_an_intent_after_the_stop_is_refused_so_its_frame_never_leaves(farm: Farm, tmp_path: Path):
    fake, hub = install(tmp_path), make_bare_hub(tmp_path / "hub.git")
    # The answer to thread/start is late: the stop comes between the thread and the turn.
    fake.write_faults({"method": "thread/start", "do": "late", "seconds": 2, "times": 2})
    farm.wait_up(farm.start_scheduler(), farm.start_worker("h1", **worker_settings(fake)))
    run_id = farm.submit(AGENTS, {"prompt": prompt({"hang": True})}, **agent_spec(hub))
    wait_until(lambda: fake.requests("thread/start"), 30, "the thread's frame")
    assert runs.set_stop(farm.database, run_id, "cancel") is not None
    stopped_at = time.time()
    assert cancel(farm, run_id).wait(60) == 0
    check_cancelled(farm, run_id)
    late = [frame for frame in fake.requests() if frame["at"] > stopped_at + 0.2]
    assert not [frame["method"] for frame in late if frame.get("method") in ("turn/start", "thread/start")]
    assert not farm.call_rows(run_id, "turn_requested")


@pytest.mark.req("O10", "J15", "J16", "J17")
def test_the_commands_of_ops_are_killed_with_their_group_within_the_grace(farm: Farm, tmp_path: Path):
    hub = make_bare_hub(tmp_path / "hub.git")
    farm.wait_up(farm.start_scheduler(), farm.start_worker("h1"))
    mark = tmp_path / "pids"
    # The command ignores SIGTERM and has a child of its own: both have to go.
    command = f"trap '' TERM; sleep 300 & echo $! >> {mark}; echo $$ >> {mark}; wait"
    args = {"head": git(hub, "rev-parse", "main"), "command": command}
    run_id = farm.submit(VERIFY, args, **agent_spec(hub))
    pids = wait_until(lambda: mark.exists() and len(mark.read_text().split()) == 4 and mark.read_text(), 30, "commands")
    started = time.monotonic()
    assert cancel(farm, run_id).wait(60) == 0
    assert time.monotonic() - started < 12
    check_cancelled(farm, run_id)
    (waiting,) = [row for row in farm.rows(run_id) if getattr(row, "kind", "") == "cancel_waiting"]
    ends = farm.call_rows(run_id, "held")
    assert [call["call_id"] for call in waiting.data["calls"]] == sorted(row.call_id for row in ends)
    assert {(call["op"], call["node"]) for call in waiting.data["calls"]} == {("verify", "n0"), ("verify", "n1")}
    assert all(row.seq > waiting.seq for row in ends)
    assert not [pid for pid in pids.split() if runs_still(int(pid))]


@pytest.mark.req("J20", "J22", "K73", "X05")
def test_a_cancel_works_without_scheduler_and_worker_and_needs_no_second_one(farm: Farm, tmp_path: Path):
    fake, hub = install(tmp_path), make_bare_hub(tmp_path / "hub.git")
    scheduler, worker = farm.start_scheduler(), farm.start_worker("h1", **worker_settings(fake))
    farm.wait_up(scheduler, worker)
    run_id = farm.submit(AGENTS, {"prompt": prompt({"hang": True})}, **agent_spec(hub))
    wait_until(lambda: len(farm.call_rows(run_id, "user_message_seen")) == 2, 30, "two turns")
    scheduler.kill()
    worker.kill()
    commands = [cancel(farm, run_id, "--wait", "6") for _ in range(3)]
    statuses = [command.wait(60) for command in commands]
    assert 0 in statuses, [command.stdout.read() for command in commands if command.stdout]
    check_cancelled(farm, run_id)
    assert {row.detail["reason"] for row in farm.call_rows(run_id, "outcome_unknown")} == {"cancel"}
    assert farm.finished(run_id).data["dead"] is True
    # The host comes back: what it finds has ended, it adds no row and no turn.
    farm.wait_up(farm.start_worker("h1", **worker_settings(fake)))
    rows = farm.rows(run_id)
    until = time.monotonic() + 2
    wait_until(lambda: time.monotonic() > until, 5, "the host to look")
    assert farm.rows(run_id) == rows and len(fake.requests("turn/start")) == 2

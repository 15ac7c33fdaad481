"""A host burns down in the middle of a flow: its nodes go on elsewhere, from what the hub has, with the same result."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shared.model.rows import CallRow
from tests.acceptance.farm.agents import SCHEMA, agent_spec, prompt, say, worker_settings
from tests.fakehost.install import FakeHost, install
from tests.farm import ROOT, Farm, Process
from tests.repositories import git, make_bare_hub
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(240)

FLOW = f"""
async def main(flow, args):
    built = await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})
    first = await flow.crw.commit(node="n", message="build")
    mended = await built.call(args["mend"], schema={SCHEMA!r})
    second = await flow.crw.commit(node="n", message="mend")
    checked = await flow.crw.verify(node="n", head=second["commit"], command="grep -q one a.txt && grep -q two b.txt")
    merged = await flow.crw.integrate(heads={{"n": second["commit"]}})
    return [built["summary"], mended["summary"], second["tree"], checked["passed"], merged["merged"]]
"""


def write(name: str, text: str) -> dict[str, object]:
    return {"out": [{"exec": f"printf {text} > {name}"}]}


def arguments(**before_mend: object) -> dict[str, str]:
    return {
        "build": prompt(write("a.txt", "one"), say("built")),
        "mend": prompt(write("b.txt", "two"), {**say("mended"), **before_mend}),
    }


def crw(farm: Farm, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scheduler.cli.main", *words],
        env=farm.env(state_dir=farm.directory / "client"), cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip


def burn(farm: Farm, worker: Process, host: str) -> None:
    """The machine is gone with everything on it."""
    worker.end()
    shutil.rmtree(farm.directory / f"state-{host}")


def start(farm: Farm, tmp_path: Path, host: str) -> tuple[Process, FakeHost]:
    fake = install(tmp_path / host)
    return farm.start_worker(host, **worker_settings(fake)), fake


def rungs(farm: Farm, run_id: str) -> list[tuple[str | None, str]]:
    return [(row.host, str(row.detail["rung"])) for row in farm.call_rows(run_id, "conversation")]


def turn_of(farm: Farm, run_id: str, position: int, host: str) -> CallRow | None:
    rows = farm.call_rows(run_id, "user_message_seen")
    return next((row for row in rows if (row.position, row.host) == (position, host)), None)


@pytest.mark.req("K38", "K42", "RULE19", "RULE27", "K33")
def test_a_lost_host_s_turn_runs_again_on_another_host_from_the_boundary_on_the_hub(farm: Farm, tmp_path: Path):
    hub = make_bare_hub(tmp_path / "hub.git")
    first, _ = start(farm, tmp_path, "h1")
    farm.wait_up(farm.start_scheduler(), first, deadline_seconds=60)
    run_id = farm.submit(FLOW, arguments(before=8), **agent_spec(hub))
    wait_until(lambda: turn_of(farm, run_id, 3, "h1"), 60, "the second turn on h1")
    burn(farm, first, "h1")
    second, fake = start(farm, tmp_path, "h2")
    farm.wait_up(second, deadline_seconds=60)
    stranded = "select 1 from call_claims where state = 'stranded'"
    wait_until(lambda: farm.database.fetch(stranded, {}), 30, "the dead worker's call to be stranded")
    assert farm.finished(run_id) is None and not farm.call_rows(run_id, "superseded", "outcome_unknown"), (
        "a host that is only silent is waited for"
    )
    said = crw(farm, "host", "lost", "h1", "--yes", "--json")
    assert said.returncode == 0, said.stderr
    (gone,) = wait_until(lambda: farm.call_rows(run_id, "superseded"), 30, "the run's word on the lost call")
    assert (gone.position, gone.detail["reason"], gone.detail["host"]) == (3, "host_lost", "h1")
    again = wait_until(lambda: turn_of(farm, run_id, 3, "h2"), 60, "the turn on h2")
    assert again.attempt == 1 and rungs(farm, run_id)[-1] == ("h2", "checkpoint")
    (restored,) = farm.call_rows(run_id, "worktree_restored")
    assert restored.host is not None and restored.snapshot_digest == tree_of_first_commit(farm, run_id)
    _finish_soon(farm, run_id, fake)


def tree_of_first_commit(farm: Farm, run_id: str) -> str:
    ends = [row for row in farm.call_rows(run_id, "completed") if row.kind == "commit"]
    return str(ends[0].detail["tree"])


def _finish_soon(farm: Farm, run_id: str, fake: FakeHost) -> None:
    end = farm.wait_finished(run_id, 120)
    assert end.data["status"] == "completed", end.data
    built, mended, tree, checked, merged = end.data["result"]
    assert (built, mended, checked, merged) == ("built", "mended", True, True)
    hub = Path(farm_hub(farm, run_id))
    assert git(hub, "rev-parse", f"refs/heads/crw/{run_id}^{{tree}}") == tree
    assert git(hub, "ls-tree", "--name-only", tree).split() == ["README.md", "a.txt", "b.txt", "src"]
    farm.check_rows(run_id)
    assert len(fake.requests("turn/start")) == 1, "one turn was run there"


def farm_hub(farm: Farm, run_id: str) -> str:
    ((hub,),) = farm.database.fetch(
        "select spec_json::json ->> 'hub' from flow_specs where run_id = %(run)s", {"run": run_id}
    )
    return str(hub)


@pytest.mark.slow
@pytest.mark.req("K42", "RULE12", "RULE43")
def test_a_drained_host_s_node_goes_on_elsewhere_with_its_conversation_retold(farm: Farm, tmp_path: Path):
    hub = make_bare_hub(tmp_path / "hub.git")
    first, _ = start(farm, tmp_path, "h1")
    farm.wait_up(farm.start_scheduler(), first, deadline_seconds=60)
    script = FLOW.replace(
        "    mended =", '    await flow.crw.verify(head=first["commit"], command=args["wait"])\n    mended ='
    )
    gate = tmp_path / "gate"
    run_id = farm.submit(
        script, {**arguments(), "wait": f"while [ ! -e {gate} ]; do sleep 0.1; done"}, **agent_spec(hub)
    )
    wait_until(lambda: [row for row in farm.call_rows(run_id, "completed") if row.kind == "commit"], 60, "a commit")
    second, fake = start(farm, tmp_path, "h2")
    farm.wait_up(second, deadline_seconds=60)
    assert crw(farm, "host", "drain", "h1").returncode == 0
    placed = "select host from node_placements where node_id = 'n'"
    wait_until(lambda: farm.database.fetch(placed, {}) == [(None,)], 60, "the idle node to move")
    gate.touch()
    _finish_soon(farm, run_id, fake)
    assert rungs(farm, run_id)[-1] == ("h2", "checkpoint")
    wait_until(lambda: crw(farm, "host", "drain", "h1", "--wait", "1").returncode == 0, 30, "h1 to be empty")


@pytest.mark.slow
@pytest.mark.req("RULE27", "K38")
def test_a_host_that_stays_away_is_given_up_by_itself(farm: Farm, tmp_path: Path):
    hub = make_bare_hub(tmp_path / "hub.git")
    first, _ = start(farm, tmp_path, "h1")
    farm.wait_up(farm.start_scheduler(host_lost_after_seconds=3), first, deadline_seconds=60)
    run_id = farm.submit(FLOW, arguments(before=8), **agent_spec(hub))
    wait_until(lambda: turn_of(farm, run_id, 3, "h1"), 60, "the second turn on h1")
    burn(farm, first, "h1")
    second, fake = start(farm, tmp_path, "h2")
    farm.wait_up(second, deadline_seconds=60)
    wait_until(lambda: turn_of(farm, run_id, 3, "h2"), 60, "the turn on h2")
    assert fake.requests("turn/start")

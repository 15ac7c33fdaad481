"""A run that ended on a held call is resumed: in place where its files stand, else from its boundary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.model.rows import CallRow
from tests.acceptance.farm.agents import SCHEMA, agent_spec, prompt, say, worker_settings
from tests.acceptance.farm.test_host_loss import crw, write
from tests.fakehost.install import install
from tests.farm import Farm
from tests.repositories import git, make_bare_hub

pytestmark = pytest.mark.timeout(300)

FLOW = f"""
async def main(flow, args):
    built = await flow.agent(args["build"], role="executor", node="n", schema={SCHEMA!r})
    first = await flow.crw.commit(node="n", message="build")
    mended = await built.call(args["mend"], schema={SCHEMA!r})
    polished = await mended.call("Polish it. [[script:polish]]", schema={SCHEMA!r})
    second = await flow.crw.commit(node="n", message="mend")
    return [polished.require()["summary"], second["tree"]]
"""
FAILS = {"failed": {"code": "insufficient_quota", "message": "spent"}}


def of_lineage(farm: Farm, run_id: str, *words: str) -> list[CallRow]:
    """The call rows of these words that the resume made."""
    starts = [row.seq for row in farm.rows(run_id) if not isinstance(row, CallRow) and row.kind == "started"]
    return [row for row in farm.call_rows(run_id, *words) if row.seq > starts[-1]]


@pytest.mark.req("R41", "R43", "R24", "R27", "R30", "R31", "K39", "R26", "R28")
@pytest.mark.parametrize("meddled", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_held_run_is_resumed_to_the_result_of_an_undisturbed_one(farm: Farm, tmp_path: Path, meddled: bool) -> None:
    hub, fake = make_bare_hub(tmp_path / "hub.git"), install(tmp_path)
    polishes = write("c.txt", "three")
    fake.write_scripts({"polish": {"by_thread": True, "steps": [polishes, FAILS]}})
    worker = farm.start_worker(**worker_settings(fake))
    farm.wait_up(farm.start_scheduler(), worker, deadline_seconds=60)
    args = {
        "build": prompt(write("a.txt", "one"), say("built")),
        "mend": prompt(write("b.txt", "two"), say("mended")),
    }
    run_id = farm.submit(FLOW, args, **agent_spec(hub))
    assert farm.wait_finished(run_id, 120).data["status"] != "completed"
    (held,) = farm.call_rows(run_id, "held")[:1]
    assert held.detail["reason"] == "quota" and held.position == 4
    worktree = Path(held.worktree_path or "")
    if meddled:
        (worktree / "meddled.txt").write_text("somebody was here")
    fake.write_scripts({"polish": [polishes, say("polished")], "default": [polishes, say("polished")]})
    sent = len(fake.requests("turn/start"))
    said = crw(farm, "flow", "resume", run_id)
    assert said.returncode == 0, said.stdout + said.stderr
    ends = [row for row in farm.rows(run_id) if not isinstance(row, CallRow) and row.kind == "finished"]
    summary, tree = ends[-1].data["result"]
    assert summary == "polished"
    assert git(hub, "ls-tree", "--name-only", tree).split() == ["README.md", "a.txt", "b.txt", "c.txt", "src"]
    assert all(row.position > 2 for row in of_lineage(farm, run_id, "prepared", "hold_cleared")), "the rest replayed"
    if meddled:
        (preserved,) = of_lineage(farm, run_id, "worktree_preserved")
        assert git(hub, "show", f"{preserved.detail['ref']}:meddled.txt") == "somebody was here"
        (restored,) = of_lineage(farm, run_id, "worktree_restored")
        assert restored.worktree_path != str(worktree) and (worktree / "meddled.txt").exists()
        assert of_lineage(farm, run_id, "fork_started")
    else:
        (cleared,) = of_lineage(farm, run_id, "hold_cleared")
        assert cleared.position == 4 and len(fake.requests("turn/start")) == sent + 1
        assert not of_lineage(farm, run_id, "worktree_restored", "fork_requested", "thread_requested")
    farm.check_rows(run_id)
    assert json.loads(crw(farm, "flow", "result", run_id, "--json").stdout)["status"] == "completed"

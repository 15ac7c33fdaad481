"""Somebody undid what a run had proven: the resume runs that part again, with real git on the host, and no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.hub.refs import commit_ref
from shared.model.rows import CallRow
from tests.integration.call.desk import SCHEMA, prompt
from tests.integration.cli.conftest import Crw
from tests.integration.engine.test_suffix import live_places
from tests.integration.resume.house import House
from tests.repositories import git

pytestmark = pytest.mark.timeout(120)

LANES = f"""
async def main(flow, args):
    async def lane(n):
        build = await flow.agent(args["build"], role="executor", node=n, schema={SCHEMA!r})
        head = await flow.crw.commit(node=n, message="build")
        if n == "b":
            return [build.require()["summary"], head["tree"]]
        fix = await build.call(args["fix"], schema={SCHEMA!r})
        head = await flow.crw.commit(node=n, message="fix")
        return [fix.require()["summary"], head["tree"]]
    return await flow.parallel({{n: lane(n) for n in ("a", "b")}})
"""


def says(name: str) -> dict[str, Any]:
    return {"out": [{"msg": json.dumps({"summary": name}), "phase": "final_answer"}]}


def writes(name: str) -> dict[str, Any]:
    return {"out": [{"exec": f"printf {name} > {name}.txt"}]}


ARGS = {name: prompt(writes(name), says(name)) for name in ("build", "fix")}


def ended_run(house: House) -> str:
    """A run whose two lanes came to their ends."""
    run_id = house.submit(LANES, ARGS, hub=str(house.hub), base=git(house.hub, "rev-parse", "main"))
    house.drive()
    assert house.end(run_id)["status"] == "completed", house.end(run_id)
    return run_id


def worktree_of(house: House, run_id: str, node: str) -> Path:
    placed = [row for row in house.calls(run_id, "placed") if row.node_id == node]
    return Path(str(placed[-1].worktree_path))


def sent(house: House) -> dict[str, int]:
    return {method: len(house.fake.requests(method)) for method in ("thread/start", "thread/fork", "turn/start")}


def resume(house: House, crw: Crw, run_id: str) -> list[CallRow]:
    """Resume as a user does, to the run's end; the call rows that came of it."""
    before = house.rows(run_id)[-1].seq
    assert crw("flow", "resume", run_id, "--no-wait").status == 0
    house.drive()
    return [row for row in house.rows(run_id) if isinstance(row, CallRow) and row.seq > before]


@pytest.mark.req("R12", "R20", "R24", "R26", "R27", "R30", "R31", "P04")
def test_a_commit_that_somebody_took_away_is_made_again_and_nothing_else_is(house: House, crw: Crw) -> None:
    run_id = ended_run(house)
    first, worktree = house.end(run_id)["result"], worktree_of(house, run_id, "a")
    # Back to the first commit, and no ref names the second any more.
    git(worktree, "reset", "-q", "--hard", "HEAD~1")
    git(house.hub, "update-ref", "-d", commit_ref(run_id, "a", 2))
    git(worktree, "update-ref", "-d", commit_ref(run_id, "a", 2))
    (why,) = [one for one in crw("flow", "explain", run_id, "--json").records if one["position"] == "main/1[a]:3"]
    assert (why["resume"]["decision"], why["resume"]["condition"]) == ("live", "e")
    assert (
        "HEAD of node a's worktree was moved back to" in why["resume"]["sentence"]
        and why["resume"]["facts"]["last_in_history"]
    )
    before = sent(house)
    rows = resume(house, crw, run_id)
    assert house.end(run_id)["result"] == first, "the same trees"
    assert live_places(house, run_id, 1) == ["main/1[a]:3", "main/1[a]:4"]
    assert {row.node_id for row in rows} == {"a"}, "the lane beside it replayed"
    assert sent(house) == {**before, "thread/fork": before["thread/fork"] + 1, "turn/start": before["turn/start"] + 1}
    taken = {f"{row.path}:{row.position}": row.detail for row in rows if row.event == "superseded"}
    assert {place: detail["condition"] for place, detail in taken.items()} == {"main/1[a]:3": "e", "main/1[a]:4": "a"}
    assert taken["main/1[a]:3"]["facts"]["recorded"] != taken["main/1[a]:3"]["facts"]["head"]
    (restored,) = [row for row in rows if row.event == "worktree_restored"]
    assert restored.worktree_path != str(worktree)
    assert restored.start_commit == taken["main/1[a]:3"]["facts"]["head"]

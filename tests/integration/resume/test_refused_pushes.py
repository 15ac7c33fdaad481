"""The hub refused the work of a turn that was over: once it admits it, a resume needs no other turn, as a plan says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shared.hub.refs import pending_ref
from shared.model.rows import CallRow
from shared.model.unpushed import Unpushed
from tests.integration.call.desk import SCHEMA
from tests.integration.cli.conftest import Crw
from tests.integration.resume.house import House
from tests.integration.resume.test_gone_effects import ARGS, resume, sent, worktree_of
from tests.repositories import git, refuse_pushes

pytestmark = pytest.mark.timeout(120)

LANE = f"""
async def main(flow, args):
    build = await flow.agent(args["build"], role="executor", node="a", schema={SCHEMA!r})
    if not build.ok:
        return build.status
    head = await flow.crw.commit(node="a", message="build")
    fix = await build.call(args["fix"], schema={SCHEMA!r})
    return [build.output["summary"], fix.output["summary"], head["changed"]]
"""
WHOLE = ["build", "fix", True]


def refused_run(house: House) -> tuple[str, Path]:
    """A run whose one turn was over when the hub refused its work, and the hub's hook."""
    hook = refuse_pushes(house.hub)
    run_id = house.submit(LANE, ARGS, hub=str(house.hub), base=git(house.hub, "rev-parse", "main"))
    house.drive()
    assert house.end(run_id)["result"] == "held", house.end(run_id)
    return run_id, hook


def held_row(house: House, run_id: str) -> tuple[CallRow, Unpushed]:
    (held,) = house.calls(run_id, "held")
    kept = Unpushed.read(held)
    assert kept is not None
    return held, kept


@pytest.mark.req("R41", "R43", "RULE9")
def test_a_resume_pushes_the_work_that_was_refused_and_sends_no_turn_for_it(house: House, crw: Crw) -> None:
    run_id, hook = refused_run(house)
    held, kept = held_row(house, run_id)
    (planned,) = crw("flow", "resume", run_id, "--plan", "--json").records[0]["positions"]
    assert (planned["decision"], planned["condition"]) == ("go_on", None)
    assert planned["sentence"] == "its turns are over: its work is pushed, and its recorded answer stands"
    said = crw("flow", "explain", run_id, "main:1").out
    assert "on a resume now: goes on in place" in said and planned["sentence"] in said
    hook.unlink()
    before = sent(house)
    rows = resume(house, crw, run_id)
    assert house.end(run_id)["result"] == WHOLE
    assert sent(house) == {**before, "turn/start": before["turn/start"] + 1}, "the fix alone"
    own = [row.event for row in rows if row.call_id == held.call_id]
    assert own == ["hold_cleared", "push_requested", "completed"]
    assert git(house.hub, "rev-parse", f"{pending_ref(run_id, held.call_id)}^{{tree}}") == kept.tree


def lose_commit(house: House, run_id: str) -> None:
    mirror = house.work.mirrors.path_of(str(house.hub))
    git(mirror, "update-ref", "-d", held_row(house, run_id)[1].ref)


def change_files(house: House, run_id: str) -> None:
    (worktree_of(house, run_id, "a") / "build.txt").write_text("somebody")


@pytest.mark.req("R42", "R48")
@pytest.mark.parametrize(("lose", "reason"), [(lose_commit, "kept_work_gone"), (change_files, "files_changed")])
def test_work_that_was_refused_and_is_not_there_any_more_is_done_again(
    house: House, crw: Crw, lose: Callable[[House, str], None], reason: str
) -> None:
    run_id, hook = refused_run(house)
    lose(house, run_id)
    (planned,) = crw("flow", "resume", run_id, "--plan", "--json").records[0]["positions"]
    assert (planned["decision"], planned["condition"], planned["facts"]["reason"]) == ("live", "g", reason)
    hook.unlink()
    before = sent(house)
    rows = resume(house, crw, run_id)
    assert house.end(run_id)["result"] == WHOLE
    assert sent(house)["turn/start"] == before["turn/start"] + 2
    assert [row.detail["condition"] for row in rows if row.event == "superseded"] == ["g"]

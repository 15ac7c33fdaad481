"""A call whose work the hub refused goes on from what its host kept: it is pushed, and no turn that is over is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.hub.refs import pending_ref, superseded_ref
from shared.journal import runs
from shared.journal.append import OpenCall
from shared.model.boundary import HeldTree
from shared.model.outcome import Status
from shared.model.rows import CallRow
from shared.model.unpushed import Unpushed
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_boundary import FAILS, WRITES, on_hub, row_of
from tests.integration.call.test_in_place import packets_of
from tests.integration.call.test_moved_head import COMMITS
from tests.repositories import git, refuse_pushes

pytestmark = pytest.mark.timeout(180)


def refused(one: OneWorker, text: str, reason: str = "worktree_failed") -> tuple[OpenCall, Path]:
    """A call whose work the hub refused, and the hub's hook."""
    hook = refuse_pushes(one.hub)
    call = one.open(text)
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, reason), ended
    assert "no pushes today" in row_of(one, call, "held").detail["error"]
    return call, hook


def kept_by(row: CallRow) -> Unpushed:
    kept = Unpushed.read(row)
    assert kept is not None
    return kept


def mirror_of(one: OneWorker) -> Path:
    return one.worker.mirrors.path_of(str(one.hub))


def in_mirror(one: OneWorker, ref: str) -> str:
    return git(mirror_of(one), "rev-parse", "--verify", "-q", ref, check=False)


@pytest.mark.req("R41", "RULE9")
def test_work_that_was_refused_is_pushed_later_and_the_recorded_answer_stands(one: OneWorker) -> None:
    call, hook = refused(one, prompt(WRITES, DONE))
    held = row_of(one, call, "held")
    kept = kept_by(held)
    assert held.held_tree is None, "no column names what the hub has not"
    assert (in_mirror(one, kept.ref), in_mirror(one, f"{kept.commit}^{{tree}}")) == (kept.commit, kept.tree)
    asked = len(one.fake.requests())
    hook.unlink()
    ended = one.work(one.clear_hold(call))
    assert ended is not None and (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"})
    assert len(one.fake.requests()) == asked, "nothing was asked of the App Server"
    end, first = one.rows(call)[-1], row_of(one, call, "turn_ended")
    assert (end.pending_tree, end.thread_id, end.turn_id) == (kept.tree, first.thread_id, first.turn_id)
    assert (ended.meta.turns, ended.meta.tokens) == (1, held.tokens)
    assert git(one.hub, "rev-parse", pending_ref(one.run_id, call.call_id)) == kept.commit
    assert on_hub(one, kept.commit) == "build" and in_mirror(one, kept.ref) == ""


@pytest.mark.req("R47", "RULE9")
def test_a_hub_that_refuses_again_holds_the_call_once_more(one: OneWorker) -> None:
    call, hook = refused(one, prompt(WRITES, DONE))
    again = one.work(one.clear_hold(call))
    assert again is not None and again.status is Status.HELD
    first, second = [kept_by(row) for row in one.rows(call) if row.event == "held"]
    assert first == second
    hook.unlink()
    ended = one.work(one.clear_hold(call))
    assert ended is not None and (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"})
    assert one.sent("turn/start") == 1


@pytest.mark.req("R41", "R43", "RULE9")
def test_a_turn_that_was_stopped_carries_on_on_top_of_what_the_hub_refused(one: OneWorker) -> None:
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [WRITES, FAILS, WRITES, DONE]}})
    call, hook = refused(one, "Do it. [[script:late]]", "quota")
    kept = kept_by(row_of(one, call, "held"))
    assert kept.result is None
    hook.unlink()
    ended = one.work(one.clear_hold(call))
    assert ended is not None and ended.status is Status.COMPLETED
    assert packets_of(one, call) == ["task", "continue"]
    pending = pending_ref(one.run_id, call.call_id)
    assert on_hub(one, pending) == "build\nbuild" and on_hub(one, kept.commit) == "build"
    assert kept.commit in git(one.hub, "rev-list", pending).split("\n"), "every held state stays reachable"


@pytest.mark.req("P14", "RULE9")
def test_the_head_that_an_executor_moved_is_on_the_row_of_work_that_was_refused(one: OneWorker) -> None:
    call, hook = refused(one, prompt(COMMITS, DONE))
    held = row_of(one, call, "held")
    moved, kept = held.detail["executor_head_moved"], kept_by(held)
    assert moved["start"] == one.base and git(mirror_of(one), "rev-parse", f"{kept.commit}^") == moved["head"]
    hook.unlink()
    ended = one.work(one.clear_hold(call))
    assert ended is not None and ended.status is Status.COMPLETED
    assert row_of(one, call, "completed").detail["executor_head_moved"] == moved
    assert git(one.hub, "rev-parse", moved["ref"]) == moved["head"]


@pytest.mark.req("R41", "RULE9")
@pytest.mark.parametrize("at", ["after:push_requested", "before:completed"])
def test_a_death_while_kept_work_is_pushed_sends_no_turn_either(one: OneWorker, at: str) -> None:
    call, hook = refused(one, prompt(WRITES, DONE))
    kept = kept_by(row_of(one, call, "held"))
    hook.unlink()
    cleared = one.clear_hold(call)
    one.work_until_death(cleared, at)
    one.reincarnate()
    ended = one.work(cleared)
    assert ended is not None and (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"})
    assert git(one.hub, "rev-parse", pending_ref(one.run_id, call.call_id)) == kept.commit
    assert one.sent("turn/start") == 1


@pytest.mark.req("R41", "RULE9")
def test_a_stop_that_meets_kept_work_before_it_is_pushed_leaves_it_to_the_next_resume(
    one: OneWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, _ = refused(one, prompt(WRITES, DONE))
    kept = kept_by(row_of(one, call, "held"))
    cleared = one.clear_hold(call)
    one.work_until_death(cleared, "after:push_requested")
    runs.set_stop(one.database, one.run_id, "pause")
    one.reincarnate()
    monkeypatch.setattr(one.worker, "should_stop", lambda claim: "pause")
    ended = one.work(cleared)
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, "pause")
    held = row_of(one, call, "held")
    assert (held.attempt, held.input_state, kept_by(held)) == (cleared.attempt, "delivered", kept)
    assert one.sent("turn/start") == 1


@pytest.mark.req("R25", "R48")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_refused_work_that_gives_way_is_kept_where_it_is_and_stops_no_other_host(
    one: OneWorker, elsewhere: bool
) -> None:
    call, hook = refused(one, prompt(WRITES, DONE))
    kept = kept_by(row_of(one, call, "held"))
    Path(row_of(one, call, "placed").worktree_path or "", "made.txt").write_text("somebody")
    hook.unlink()
    if elsewhere:
        one.move("h2")
    again = one.open_again(call, boundary=one.boundary(HeldTree(call.call_id, kept.tree, unpushed=True)))
    if elsewhere:
        one.farm.rows("update node_placements set host = 'h2' returning 1")
    ended = one.work(again)
    assert ended is not None and ended.status is Status.COMPLETED and one.sent("turn/start") == 2
    (held,) = row_of(one, call, "worktree_preserved").detail["held"]
    if elsewhere:
        assert held["ref"] is None and "find remote ref" in held["error"]
    else:
        assert held["ref"] == superseded_ref(one.run_id, 1, call.path, "n1", call.call_id)
        assert on_hub(one, held["ref"]) == "build"


@pytest.mark.req("R48", "RULE9")
def test_a_call_that_begins_again_elsewhere_needs_nothing_of_what_its_lost_host_alone_had(one: OneWorker) -> None:
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [WRITES, FAILS]}})
    call, hook = refused(one, "Do it. [[script:late]]", "quota")
    kept = kept_by(row_of(one, call, "held"))
    assert kept.result is None
    hook.unlink()
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [WRITES, DONE]}})
    one.move("h2")
    again = one.open_again(call, boundary=one.boundary(HeldTree(call.call_id, kept.tree, unpushed=True)))
    one.farm.rows("update node_placements set host = 'h2' returning 1")
    ended = one.work(again)
    assert ended is not None and ended.status is Status.COMPLETED, ended
    assert on_hub(one, pending_ref(one.run_id, call.call_id)) == "build"

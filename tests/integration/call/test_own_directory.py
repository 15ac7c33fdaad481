"""Directories of calls that only read: one for each allocation, gone with an owner's end, guarded."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from shared.base.errors import WorktreeError
from shared.journal import runs
from shared.journal.append import OpenCall
from shared.model.outcome import Status
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_boundary import WRITES, row_of
from tests.repositories import git
from tests.waiting import wait_until
from workers.call import leftovers

pytestmark = pytest.mark.timeout(180)


def architect(one: OneWorker, text: str = prompt(DONE), **detail: Any) -> OpenCall:
    return one.open(text, role="architect", node=None, **detail)


def turn_cwds(one: OneWorker) -> list[str | None]:
    return [frame["params"].get("cwd") for frame in one.fake.requests("turn/start")]


def head(one: OneWorker) -> str:
    """A commit that the hub has beside its main branch."""
    work = one.hub.with_name("hub.git-work")
    (work / "plan.txt").write_text("plan")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "plan")
    git(work, "push", "-q", str(one.hub), "HEAD:refs/heads/plan")
    return git(work, "rev-parse", "HEAD")


@pytest.mark.req("A16", "W12", "W13", "R38")
def test_a_continuation_that_names_a_head_has_a_directory_of_its_own_which_goes_with_its_end(one: OneWorker) -> None:
    design = architect(one)
    one.work(design)
    commit = head(one)
    look = {"out": [{"exec": "cat plan.txt"}]}
    review = architect(one, prompt(look, DONE), head=commit, context=one.goes_on(design))
    ended = one.work(review)
    assert ended is not None and ended.status is Status.COMPLETED
    placed = row_of(one, review, "placed")
    assert placed.start_commit == ended.meta.head == commit and Path(placed.worktree_path or "").name == "wt"
    assert turn_cwds(one) == [row_of(one, design, "placed").worktree_path, placed.worktree_path]
    assert row_of(one, review, "completed").detail["own_directory"] == placed.worktree_path
    assert not Path(placed.worktree_path or "").exists()
    then = architect(one, context=one.goes_on(review))
    went_on = one.work(then)
    assert went_on is not None and went_on.status is Status.COMPLETED
    assert turn_cwds(one)[-1] == row_of(one, design, "placed").worktree_path, "the thread goes on where it began"
    assert went_on.meta.head == row_of(one, design, "placed").start_commit, "and reads what stands there"
    assert "own_directory" not in row_of(one, then, "completed").detail and one.sent("thread/start") == 1


@pytest.mark.req("W13")
def test_an_own_directory_goes_also_while_its_run_is_being_cancelled(one: OneWorker) -> None:
    design = architect(one)
    one.work(design)
    review = architect(one, prompt({"hang": True}), head=head(one), context=one.goes_on(design))
    working = threading.Thread(target=one.work, args=(review,))
    working.start()
    wait_until(lambda: "user_message_seen" in one.words(review), 20, "the turn to be delivered")
    runs.set_stop(one.database, one.run_id, "cancel")
    (hand,) = one.worker.hands.all()
    hand.tell("cancel")
    working.join(40)
    row = row_of(one, review, "held")
    assert row.detail["reason"] == "cancel" and not Path(row.detail["own_directory"]).exists()


@pytest.mark.req("W14", "R37", "R38")
def test_a_reader_that_runs_again_takes_its_next_directory_and_its_fork_s_own_goes_too(one: OneWorker) -> None:
    design = architect(one)
    one.work(design)
    review = architect(one, head=head(one), context=one.goes_on(design))
    one.work(review)
    again = one.open_again(review, context=one.goes_on(design, how="fork"))
    assert one.work(again).status is Status.COMPLETED  # type: ignore[union-attr]
    placed = row_of(one, review, "placed")
    assert Path(placed.worktree_path or "").name == "wt-1" and not Path(placed.worktree_path or "").exists()
    assert one.fake.requests("thread/fork")[-1]["params"]["cwd"] == placed.worktree_path == turn_cwds(one)[-1]
    assert row_of(one, review, "completed").detail["own_directory"] == placed.worktree_path
    design_again = one.open_again(design)
    one.work(design_again)
    assert Path(row_of(one, design, "placed").worktree_path or "").name == "wt-1"


@pytest.mark.req("W14", "R41")
def test_a_held_fork_that_goes_on_gets_its_directory_again_at_its_recorded_head(one: OneWorker) -> None:
    design = architect(one)
    one.work(design)
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [{"failed": {"code": "insufficient_quota"}}, DONE]}})
    commit = head(one)
    review = architect(one, "[[script:late]]", head=commit, context=one.goes_on(design, how="fork"), lineage=1)
    assert one.work(review).status is Status.HELD  # type: ignore[union-attr]
    own = Path(row_of(one, review, "placed").worktree_path or "")
    assert row_of(one, review, "held").detail["own_directory"] == str(own) and not own.exists()
    assert one.work(one.clear_hold(review)).status is Status.COMPLETED  # type: ignore[union-attr]
    assert turn_cwds(one)[-1] == str(own) and row_of(one, review, "placed").start_commit == commit
    assert not own.exists() and one.sent("thread/fork") == 1


@pytest.mark.req("W13", "R38", "R39")
def test_a_resume_removes_what_earlier_processes_left_and_says_what_it_could_not(
    one: OneWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = architect(one)
    one.work(design)
    review = architect(one, head=head(one), context=one.goes_on(design))
    monkeypatch.setattr("workers.call.run.leave_directory", lambda *_: None)
    one.work(review)
    left = Path(row_of(one, review, "placed").worktree_path or "")
    assert left.is_dir()
    refused = {"error": "busy"}

    def refuse(*_: Any) -> None:
        raise WorktreeError(refused["error"])

    with monkeypatch.context() as patched:
        patched.setattr(leftovers, "remove_worktree", refuse)
        first = architect(one, lineage=1)
        one.work(first)
    kept = row_of(one, first, "own_directory_kept").detail
    assert kept == {"call": review.call_id, "path": str(left), "error": "busy"} and left.is_dir()
    one.work(architect(one, lineage=2))
    assert not left.exists()
    assert Path(row_of(one, design, "placed").worktree_path or "").is_dir(), "a thread's own directory stays"


@pytest.mark.req("R39")
def test_a_resume_leaves_the_directory_of_a_call_that_is_still_at_work_in_it(
    one: OneWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = architect(one)
    one.work(design)
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [{"failed": {"code": "insufficient_quota"}}, DONE]}})
    context = one.goes_on(design, how="fork")
    review = architect(one, "[[script:late]]", head=head(one), context=context, lineage=1)
    with monkeypatch.context() as died:
        # The worker died behind the terminal row, before it removed the directory.
        died.setattr("workers.call.run.leave_directory", lambda *_: None)
        assert one.work(review).status is Status.HELD  # type: ignore[union-attr]
    own = Path(row_of(one, review, "placed").worktree_path or "")
    again = one.clear_hold(review)
    assert one.work(architect(one, lineage=2)).status is Status.COMPLETED  # type: ignore[union-attr]
    assert own.is_dir(), "a terminal row names it, and the call goes on in it"
    assert one.work(again).status is Status.COMPLETED  # type: ignore[union-attr]
    assert not own.exists()


@pytest.mark.req("T46", "A03")
def test_a_turn_that_may_only_read_and_changed_its_directory_fails_and_leaves_the_evidence(one: OneWorker) -> None:
    call = one.open(prompt(WRITES, DONE), role="reviewer")
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.REFUSED, "repository_changed")
    placed = Path(row_of(one, call, "placed").worktree_path or "")
    assert (placed / "made.txt").exists()
    before = row_of(one, call, "turn_requested").detail["repository"]
    facts = row_of(one, call, "refused").detail
    assert facts["before"] == before != facts["after"] and before["head"] == facts["after"]["head"]


@pytest.mark.req("T46")
def test_a_read_only_directory_is_compared_also_when_the_worker_died_behind_the_turn(one: OneWorker) -> None:
    call = one.open(prompt(WRITES, DONE), role="reviewer")
    one.work_until_death(call, "after:turn_ended")
    one.reincarnate()
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.REFUSED, "repository_changed")

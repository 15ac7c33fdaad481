"""A directory that was announced and is not there whole: its call was stopped meanwhile, or `setup` failed in it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.resume.decisions import Live
from scheduler.resume.held import decide_held
from shared.base.errors import GitError
from shared.journal.append import OpenCall
from shared.model.outcome import Status
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_boundary import WRITES, row_of
from tests.integration.call.test_own_directory import architect, head
from tests.waiting import wait_until
from workers.claim import CallStopped

pytestmark = pytest.mark.timeout(180)

MakeWorker = Callable[..., OneWorker]


def stop_in_setup(one: OneWorker, call: OpenCall, begun: Path, why: str) -> None:
    """Work on a call and tell it to end while `setup` runs."""
    working = threading.Thread(target=one.work, args=(call,))
    working.start()
    wait_until(begun.exists, 20, "setup to run")
    (hand,) = one.worker.hands.all()
    hand.tell(why)
    working.join(40)


@pytest.mark.req("RULE34")
def test_a_worker_that_stops_while_a_directory_is_set_up_gives_the_call_back(
    make_worker: MakeWorker, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    one = make_worker(setup=f"touch {begun}; test -e {go} || sleep 100")
    call = one.open(prompt(DONE))
    stop_in_setup(one, call, begun, "worker_stopped")
    assert one.ended(call) is None, one.words(call)
    go.touch()
    ended = one.work(call)
    assert ended is not None and ended.status is Status.COMPLETED, ended


@pytest.mark.req("RULE29")
def test_a_call_that_is_told_to_end_while_its_directory_is_set_up_is_held_for_that(
    make_worker: MakeWorker, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    one = make_worker(setup=f"touch {begun}; sleep 100")
    call = one.open(prompt(DONE))
    stop_in_setup(one, call, begun, "deadline")
    ended = one.ended(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, "deadline"), ended


@pytest.mark.req("R41", "R37")
def test_a_held_reader_goes_on_in_a_directory_that_was_made_whole(make_worker: MakeWorker, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    one = make_worker(setup=f"touch set-up; test -e {mended}")
    call = one.open(prompt(DONE), role="architect", node=None)
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, "worktree_failed"), ended
    half_made = row_of(one, call, "placed").worktree_path
    mended.touch()
    again = one.work(one.clear_hold(call))
    assert again is not None and again.status is Status.COMPLETED, again
    assert row_of(one, call, "placed").worktree_path != half_made


@pytest.mark.req("W13", "R38")
def test_an_own_directory_goes_also_where_the_call_was_told_to_end_before_it_asked_anybody(
    make_worker: MakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, slow = tmp_path / "begun", tmp_path / "slow"
    one = make_worker(setup=f"test ! -e {slow} || {{ touch {begun}; sleep 100; }}")
    design = architect(one)
    one.work(design)
    context, commit = one.goes_on(design), head(one)
    made = architect(one, head=commit, context=context)
    with monkeypatch.context() as behind:
        behind.setattr("workers.call.run.arm", lambda *_: one.worker.hands.tell_all("deadline"))
        assert one.work(made).status is Status.HELD  # type: ignore[union-attr]
    own = row_of(one, made, "placed").worktree_path
    assert row_of(one, made, "held").detail["own_directory"] == own and not Path(str(own)).exists()
    slow.touch()
    cut = architect(one, head=commit, context=context)
    stop_in_setup(one, cut, begun, "deadline")
    assert row_of(one, cut, "held").detail["reason"] == "deadline"
    assert not Path(str(row_of(one, cut, "placed").worktree_path)).exists()


SPENT = {"failed": {"code": "insufficient_quota"}}


def held_reader(one: OneWorker, seen: Path, **detail: object) -> tuple[OpenCall, Path]:
    """A reader that is held behind a turn, and says when it goes on what stands in its directory; that directory."""
    look = {"out": [{"exec": f"ls > {seen}"}]}
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [SPENT, look, DONE]}})
    call = architect(one, "[[script:late]]", **detail)
    assert one.work(call).status is Status.HELD  # type: ignore[union-attr]
    return call, Path(row_of(one, call, "placed").worktree_path or "")


@pytest.mark.req("W14", "R41")
def test_a_held_reader_s_own_directory_is_made_whole_where_a_try_to_make_it_again_was_cut(
    one: OneWorker, tmp_path: Path
) -> None:
    design = architect(one)
    one.work(design)
    context = one.goes_on(design, how="fork")
    review, own = held_reader(one, tmp_path / "seen", head=head(one), context=context, lineage=1)
    own.mkdir()
    (own / "half").touch()
    assert one.work(one.clear_hold(review)).status is Status.COMPLETED  # type: ignore[union-attr]
    assert (tmp_path / "seen").read_text().split() == ["README.md", "plan.txt", "src"]


@pytest.mark.req("R41")
def test_a_held_reader_whose_directory_is_gone_goes_on_in_it_again(one: OneWorker, tmp_path: Path) -> None:
    design, directory = held_reader(one, tmp_path / "seen")
    shutil.rmtree(directory)
    ended = one.work(one.clear_hold(design))
    assert ended is not None and ended.status is Status.COMPLETED, ended
    assert (tmp_path / "seen").read_text().split() == ["README.md", "src"] and directory.is_dir()


@pytest.mark.req("R43", "R47")
def test_a_call_that_is_held_again_before_it_went_on_is_still_one_whose_input_had_arrived(
    one: OneWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    design, directory = held_reader(one, tmp_path / "seen")
    for fails in (GitError("the hub is away"), CallStopped("deadline")):
        with monkeypatch.context() as once:
            once.setattr("workers.call.in_place.placed_before", raising(fails))
            assert one.work(one.clear_hold(design)).status is Status.HELD  # type: ignore[union-attr]
    ended = one.work(one.clear_hold(design))
    assert ended is not None and ended.status is Status.COMPLETED and directory.is_dir(), ended


def raising(error: Exception) -> Callable[..., object]:
    def fail(*_: object) -> object:
        raise error

    return fail


@pytest.mark.req("R41", "W16")
def test_an_executor_that_is_told_to_end_before_it_went_on_is_held_with_what_it_was_held_with(
    one: OneWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [WRITES, SPENT, DONE]}})
    call = one.open("[[script:late]]")
    assert one.work(call).status is Status.HELD  # type: ignore[union-attr]
    held = row_of(one, call, "held")
    with monkeypatch.context() as once:
        once.setattr("workers.call.run.remove_left", lambda *_: one.worker.hands.tell_all("deadline"))
        again = one.work(one.clear_hold(call))
    assert again is not None and (again.status, again.reason) == (Status.HELD, "deadline")
    told = row_of(one, call, "held")
    assert (told.held_tree, told.input_state) == (held.held_tree, "delivered") and told.attempt == 1
    ended = one.work(one.clear_hold(call))
    assert ended is not None and ended.status is Status.COMPLETED and one.sent("thread/start") == 1


@pytest.mark.req("R42")
def test_an_executor_whose_files_moved_before_it_went_on_records_nobody_s_state_for_its_own(one: OneWorker) -> None:
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [WRITES, SPENT, DONE]}})
    call = one.open("[[script:late]]")
    one.work(call)
    Path(str(row_of(one, call, "placed").worktree_path), "made.txt").write_text("somebody else was here")
    again = one.work(one.clear_hold(call))
    assert again is not None and (again.status, again.reason) == (Status.HELD, "held_state_changed")
    assert row_of(one, call, "held").held_tree is None
    assert isinstance(decide_held(one.rows(call), row_of(one, call, "held"), (call.path, call.position)), Live)

"""A node is given back to its boundary: what stood there is kept, commit and tree are made again, on any host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.hub.refs import pending_ref, superseded_ref
from shared.journal import read
from shared.journal.append import OpenCall
from shared.model.boundary import HeldTree
from shared.model.outcome import Status
from shared.model.rows import CallRow
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.repositories import git

pytestmark = pytest.mark.timeout(180)

WRITES = {"out": [{"exec": "echo build >> made.txt"}]}
FIXES = {"out": [{"exec": "echo fix >> made.txt"}]}
FAILS = {"failed": {"code": "insufficient_quota", "message": "spent"}}


def built(one: OneWorker) -> OpenCall:
    """A build that left a tree no commit carries."""
    call = one.open(prompt(WRITES, DONE))
    one.work(call)
    return call


def row_of(one: OneWorker, call: OpenCall, word: str) -> CallRow:
    return [row for row in one.rows(call) if row.event == word][-1]


def on_hub(one: OneWorker, ref: str, file: str = "made.txt") -> str:
    return git(one.hub, "show", f"{ref}:{file}")


@pytest.mark.req("R24", "R26", "R27", "R28", "K39", "W06", "W07")
def test_a_suffix_keeps_the_old_worktree_and_adopts_a_new_one_that_holds_commit_and_tree(one: OneWorker) -> None:
    build = built(one)
    fix = one.open(prompt(FIXES, DONE), context=one.goes_on(build))
    one.work(fix)
    old = Path(row_of(one, fix, "placed").worktree_path or "")
    (old / "later.txt").write_text("nobody committed this")
    boundary = {**one.boundary(), "tree": one.rows(build)[-1].pending_tree, "tree_of": build.call_id}
    again = one.open_again(fix, boundary=boundary, context=one.goes_on(build, how="fork"))
    ended = one.work(again)
    assert ended is not None and ended.status is Status.COMPLETED
    words = [word for word in one.words(fix)[one.words(fix).index("superseded") :] if word != "push_requested"]
    assert words[:9] == [
        "superseded", "prepared", "conversation", "worktree_preserved", "worktree_restored", "placed",
        "fork_requested", "fork_started", "turn_requested",
    ]  # fmt: skip
    preserved, restored = row_of(one, fix, "worktree_preserved"), row_of(one, fix, "worktree_restored")
    ref = superseded_ref(one.run_id, 1, fix.path, "n1")
    assert preserved.detail["ref"] == ref and on_hub(one, ref, "later.txt") == "nobody committed this"
    assert on_hub(one, ref) == "build\nfix"
    placed = row_of(one, fix, "placed")
    new = Path(placed.worktree_path or "")
    assert (new.name, placed.worktree_kind, placed.start_commit) == ("a2-l1", "restore", one.base)
    tree = one.rows(build)[-1].pending_tree
    assert restored.snapshot_digest == placed.snapshot_digest == tree
    assert {name: restored.detail[name] for name in ("commit", "tree", "tree_of")} == {
        "commit": None, "tree": tree, "tree_of": build.call_id,
    }  # fmt: skip
    assert (new / "made.txt").read_text() == "build\nfix\n", "the files were P, and the fix came on top"
    assert git(new, "rev-parse", "HEAD") == one.base and git(new, "diff", "--cached", "--name-only") == ""
    assert (old / "later.txt").exists() and (old / "made.txt").read_text() == "build\nfix\n"


@pytest.mark.req("R25")
def test_what_a_held_call_had_is_kept_beside_the_worktree_when_it_is_not_what_stands_there(one: OneWorker) -> None:
    build = built(one)
    fix = one.open(prompt(FIXES, FAILS), context=one.goes_on(build))
    one.work(fix)
    held = one.rows(fix)[-1].held_tree
    old = Path(row_of(one, fix, "placed").worktree_path or "")
    (old / "made.txt").write_text("somebody else was here")
    assert held is not None
    again = one.open_again(
        fix, prompt=prompt(DONE), boundary=one.boundary(HeldTree(fix.call_id, held)),
        context=one.goes_on(build, how="fork"),
    )  # fmt: skip
    one.work(again)
    ref = superseded_ref(one.run_id, 1, fix.path, "n1", fix.call_id)
    assert on_hub(one, ref) == "build\nfix" and git(one.hub, "rev-parse", f"{ref}^{{tree}}") == held
    assert row_of(one, fix, "worktree_preserved").detail["held"][0]["ref"] == ref
    told = one.fake.requests("turn/start")[-1]["params"]["input"][0]["text"]
    assert ref in told and superseded_ref(one.run_id, 1, fix.path, "n1") in told, "the new call is told where it is"


BOUNDARY = [
    f"{when}:{word}" for word in ("worktree_preserved", "worktree_restored", "placed") for when in ("before", "after")
]


@pytest.mark.req("R29")
@pytest.mark.parametrize("at", BOUNDARY)
def test_a_death_at_any_row_of_the_boundary_leaves_it_as_it_was(one: OneWorker, at: str) -> None:
    build = built(one)
    tree = one.rows(build)[-1].pending_tree
    fix = one.open(prompt(FIXES, DONE), context=one.goes_on(build, how="fork"), boundary=one.boundary(), lineage=1)
    one.work_until_death(fix, at)
    one.reincarnate()
    next_lineage = {**one.boundary(), "lineage": 2}
    assert (next_lineage["tree"], next_lineage["tree_of"]) == (tree, build.call_id), "nothing of it counts"
    assert one.work(fix).status is Status.COMPLETED  # type: ignore[union-attr]
    restored = [row for row in one.rows(fix) if row.event == "worktree_restored"]
    assert {row.snapshot_digest for row in restored} == {tree}
    assert len({row.worktree_path for row in restored}) == len(restored), "a path is never made over"
    kept = {row.detail["tree"] for row in one.rows(fix) if row.event == "worktree_preserved"}
    assert kept == {tree}, "what is kept is the old worktree, not the one made for this very call"
    again = one.open_again(fix, prompt=prompt(DONE), boundary=next_lineage, context=one.goes_on(build, how="fork"))
    assert one.work(again).status is Status.COMPLETED  # type: ignore[union-attr]
    assert row_of(one, fix, "worktree_restored").snapshot_digest == tree
    assert on_hub(one, superseded_ref(one.run_id, 2, fix.path, "n1")) == "build\nfix", "the lineage before is kept"


@pytest.mark.req("W08", "W09")
@pytest.mark.parametrize("at", ["before the fork", "before the turn"])
def test_a_restored_worktree_that_changed_stops_the_call_before_anything_is_sent(
    one: OneWorker, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = built(one)
    fix = one.open(prompt(FIXES, DONE), context=one.goes_on(build, how="fork"), boundary=one.boundary(), lineage=1)
    word = {"before the fork": "placed", "before the turn": "fork_started"}[at]
    meddle(one, fix, word, monkeypatch)
    turns = one.sent("turn/start")
    ended = one.work(fix)
    assert ended is not None
    assert (ended.status, ended.reason) == (Status.OUTCOME_UNKNOWN, "restore_snapshot_mismatch")
    assert one.sent("turn/start") == turns and one.sent("thread/fork") == (at == "before the turn")
    escalation = row_of(one, fix, "escalation")
    assert escalation.detail["reason"] == "restore_snapshot_mismatch"
    assert escalation.detail["found"] != escalation.detail["expected"] == one.rows(build)[-1].pending_tree


def meddle(one: OneWorker, call: OpenCall, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody writes into the call's worktree right behind this row."""
    writer = one.worker.writer

    def behind(write: Any) -> Any:
        def wrapped(claim: Any, *rows: Any) -> Any:
            done = write(claim, *rows)
            if any(row.event == word for row in rows):
                writer.flush()
                Path(row_of(one, call, "placed").worktree_path or "", "meddled.txt").write_text("x")
            return done

        return wrapped

    monkeypatch.setattr(writer, "append", behind(writer.append))
    monkeypatch.setattr(writer, "note", behind(writer.note))


@pytest.mark.req("K33", "K42", "R35", "RULE12")
def test_a_node_goes_on_on_another_host_with_an_equal_tree_and_is_told_of_its_conversation(one: OneWorker) -> None:
    build = built(one)
    one.move("h2")
    fix = one.open(prompt(FIXES, DONE, text="Mend it."), context=one.goes_on(build))
    one.farm.rows("update node_placements set host = 'h2' returning 1")
    ended = one.work(fix)
    assert ended is not None and (ended.status, ended.meta.host) == (Status.COMPLETED, "h2")
    restored = row_of(one, fix, "worktree_restored")
    assert restored.snapshot_digest == one.rows(build)[-1].pending_tree
    assert "/state-h2/" in str(restored.worktree_path) and restored.allocation == 2
    assert row_of(one, fix, "worktree_preserved").detail["ref"] is None, "that host's files are not here to be kept"
    conversation = row_of(one, fix, "conversation")
    assert (conversation.detail["rung"], conversation.detail["reason"]) == ("checkpoint", "other_host")
    packet = row_of(one, fix, "checkpoint_started").detail["packet"]
    assert [turn["answer"] for turn in packet["turns"]] == ['{"summary": "done"}']
    told = one.fake.requests("turn/start")[-1]["params"]["input"][0]["text"]
    assert told.index("echo build") < told.index("What is asked now:") < told.index("Mend it.")
    assert git(one.hub, "show", f"{pending_ref(one.run_id, fix.call_id)}:made.txt") == "build\nfix"


@pytest.mark.req("K33", "R35", "RULE12")
def test_a_death_behind_the_placed_row_of_a_moved_node_leaves_it_to_be_restored_once_more(one: OneWorker) -> None:
    build = built(one)
    one.move("h2")
    fix = one.open(prompt(FIXES, DONE), context=one.goes_on(build))
    one.farm.rows("update node_placements set host = 'h2' returning 1")
    one.work_until_death(fix, "after:placed")
    one.reincarnate(host_name="h2", state_dir=one.settings.state_dir.parent / "state-h2")
    ended = one.work(fix)
    assert ended is not None and ended.status is Status.COMPLETED, ended
    assert git(one.hub, "show", f"{pending_ref(one.run_id, fix.call_id)}:made.txt") == "build\nfix"


@pytest.mark.req("K33", "R35", "RULE6", "RULE12")
def test_a_node_goes_on_where_its_host_was_given_up_and_its_name_is_another_directory_s(one: OneWorker) -> None:
    build = built(one)
    one.farm.rows("update farm_hosts set state = 'lost' where host = 'h1' returning 1")
    one.move("h1")
    fix = one.open(prompt(FIXES, DONE), context=one.goes_on(build))
    ended = one.work(fix)
    assert ended is not None and ended.status is Status.COMPLETED, ended
    conversation = row_of(one, fix, "conversation")
    assert (conversation.detail["rung"], conversation.detail["reason"]) == ("checkpoint", "other_home")
    assert "/state-h1/" in str(row_of(one, fix, "worktree_restored").worktree_path)
    assert git(one.hub, "show", f"{pending_ref(one.run_id, fix.call_id)}:made.txt") == "build\nfix"


@pytest.mark.req("R27", "W01")
def test_what_setup_changes_in_a_restored_worktree_is_taken_back_and_what_git_ignores_stays(make_worker: Any) -> None:
    one = make_worker(setup="echo set up >> made.txt; echo x > new.txt; mkdir -p deps; echo '*' > deps/.gitignore")
    build = built(one)
    tree = one.rows(build)[-1].pending_tree
    fix = one.open(prompt(DONE), context=one.goes_on(build, how="fork"), boundary=one.boundary(), lineage=1)
    assert one.work(fix).status is Status.COMPLETED
    placed = Path(row_of(one, fix, "placed").worktree_path or "")
    assert one.rows(fix)[-1].pending_tree == tree and (placed / "deps").is_dir()


@pytest.mark.req("R26")
def test_a_fresh_call_of_a_suffix_adopts_the_boundary_too(one: OneWorker) -> None:
    build = built(one)
    fresh = one.open(prompt(FIXES, DONE), boundary=one.boundary(), lineage=1)
    assert one.work(fresh).status is Status.COMPLETED  # type: ignore[union-attr]
    assert row_of(one, fresh, "placed").worktree_kind == "restore" and one.sent("thread/start") == 2
    tree = one.rows(fresh)[-1].pending_tree
    assert git(one.hub, "show", f"{tree}:made.txt") == "build\nfix"
    rows = read.load_node(one.database, one.run_id, "n1")
    assert build.call_id in {row.call_id for row in rows}


@pytest.mark.req("J18", "R25")
def test_a_tree_that_a_call_was_held_with_stays_reachable_when_it_is_held_with_another(one: OneWorker) -> None:
    call = one.open(prompt(WRITES, FAILS))
    one.work(call)
    held = one.rows(call)[-1].held_tree
    one.fake.write_scripts({"default": [{"out": [{"exec": "echo more >> made.txt"}]}, DONE]})
    one.work(one.clear_hold(call))
    ref = pending_ref(one.run_id, call.call_id)
    assert git(one.hub, "show", f"{ref}:made.txt").startswith("build")
    trees = git(one.hub, "log", "--format=%T", ref).split("\n")
    assert held in trees and trees[0] == one.rows(call)[-1].held_tree != held

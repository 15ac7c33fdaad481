"""The commit op on real worktrees and a real hub."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from shared.base.canonical import canonical_bytes, parse
from shared.base.errors import FlowError, WorktreeError
from shared.model.rows import NewCallRow
from tests.integration.ops.host import OpHost
from tests.integration.worktrees.place import RUN
from tests.repositories import commit_files, git, write_files
from workers.claim import CallStopped
from workers.ops.commit import Commit


@pytest.fixture
def host(tmp_path: Path) -> OpHost:
    return OpHost(tmp_path / "h1")


@pytest.mark.req("O01", "O02", "O11", "W17")
def test_the_recorded_tree_becomes_a_commit_on_the_recorded_parent(host: OpHost) -> None:
    worktree = host.turn(1, {"new.txt": "new\n", "src/app.txt": "changed\n"})
    result = host.commit(2)
    commit = result.output["commit"]
    assert git(worktree, "rev-parse", "HEAD") == commit
    assert git(worktree, "log", "-1", "--format=%P %T", commit) == f"{host.base} {host.rows[2].pending_tree}"
    assert result.output == {
        "commit": commit,
        "tree": host.rows[2].pending_tree,
        "parent": host.base,
        "changed": True,
        "paths": ["new.txt", "src/app.txt"],
        "outside_regions": [],
    }
    assert result.columns == {"commit_sha": commit} and result.facts["tree"] == host.rows[2].pending_tree
    assert git(worktree, "status", "--porcelain") == ""


@pytest.mark.req("O11")
def test_what_changed_after_the_turn_stays_out_and_visible(host: OpHost) -> None:
    worktree = host.turn(1, {"src/app.txt": "changed\n"})
    write_files(worktree, {"src/app.txt": "later\n", "later.txt": "later\n"})
    commit = host.commit(2).output["commit"]
    assert git(worktree, "show", f"{commit}:src/app.txt") == "changed"
    assert (worktree / "src/app.txt").read_text() == "later\n"
    assert git(worktree, "status", "--porcelain").split("\n") == [" M src/app.txt", "?? later.txt"]


@pytest.mark.req("O11", "W21")
def test_the_real_index_keeps_its_flags_and_a_left_lock_does_not_matter(host: OpHost) -> None:
    worktree = host.turn(1, {"new.txt": "new\n"})
    git(worktree, "update-index", "--skip-worktree", "README.md")
    index = Path(git(worktree, "rev-parse", "--absolute-git-dir")) / "index"
    index.with_name("index.lock").touch()
    host.commit(2)
    index.with_name("index.lock").unlink()
    assert git(worktree, "ls-files", "-v").split("\n") == ["S README.md", "H new.txt", "H src/app.txt"]


@pytest.mark.req("O12")
def test_a_head_that_is_not_the_recorded_parent_refuses_the_commit(host: OpHost) -> None:
    worktree = host.turn(1, {"new.txt": "new\n"})
    foreign = commit_files(worktree, {"foreign.txt": "x"})
    with pytest.raises(WorktreeError, match="somebody else committed there"):
        host.commit(2)
    assert git(worktree, "rev-parse", "HEAD") == foreign
    assert host.on_hub(f"refs/crw/flow/{RUN}/commit/n/1") is None


@pytest.mark.req("K09", "RULE9")
def test_the_commit_is_on_the_hub_before_head_moves_and_its_intent_before_that(host: OpHost) -> None:
    worktree = host.turn(1, {"new.txt": "new\n"})
    ref = f"refs/crw/flow/{RUN}/commit/n/1"
    seen = []

    def at_intent(*rows: NewCallRow) -> None:
        seen.append((rows[0].event, rows[0].detail["ref"], host.on_hub(ref), git(worktree, "rev-parse", "HEAD")))

    op = Commit()
    context = host.context(2, "commit", op.parse({"node": "n", "message": "m"}), node="n")
    result = op.run(replace(context, append=at_intent))
    assert seen == [("push_requested", ref, None, host.base)]
    assert host.on_hub(ref) == result.output["commit"]


@pytest.mark.req("RULE8", "K09")
def test_the_same_request_makes_the_same_commit_again_and_finds_it_done(host: OpHost) -> None:
    worktree = host.turn(1, {"new.txt": "new\n"})
    op, arguments = Commit(), {"node": "n", "message": "a change"}
    first = host.run_op(op, 2, arguments, node="n")
    again = host.run_op(op, 2, arguments, node="n", fence=2)
    assert again == first and git(worktree, "rev-parse", "HEAD") == first.output["commit"]


@pytest.mark.req("RULE8")
def test_the_same_request_makes_the_same_commit_on_another_host(host: OpHost, tmp_path: Path) -> None:
    host.turn(1, {"new.txt": "new\n"})
    other = OpHost(tmp_path / "h2", hub=host.hub)
    other.turn(1, {"new.txt": "new\n"})
    assert host.commit(2).output == other.commit(2).output


@pytest.mark.req("RULE8")
def test_everything_in_the_commit_comes_from_rows(host: OpHost) -> None:
    worktree = host.turn(1, {"new.txt": "new\n"})
    host.commit(2, message="a title\n\nand a body  \n")
    call, request = host.rows[-1].call_id, host.rows[-1].request_id
    shown = git(worktree, "log", "-1", "--format=%an|%ae|%cn|%ce|%ad|%cd|%B", "--date=iso-strict")
    who = "crw-farm|crw-farm@localhost|crw-farm|crw-farm@localhost"
    when = "2026-03-04T05:06:07+00:00|2026-03-04T05:06:07+00:00"
    trailers = f"Crw-Run: {RUN}\nCrw-Call: {call}\nCrw-Request: {request}\n"
    assert shown == f"{who}|{when}|a title\n\nand a body\n\n{trailers}"


@pytest.mark.req("O11")
def test_a_crash_between_the_push_and_head_is_made_good_by_the_next_try(host: OpHost) -> None:
    worktree = host.turn(1, {"new.txt": "new\n"})
    op, arguments = Commit(), {"node": "n", "message": "a change"}
    first = host.run_op(op, 2, arguments, node="n")
    git(worktree, "update-ref", "--no-deref", "HEAD", host.base)
    git(worktree, "read-tree", host.base)
    assert host.run_op(op, 2, arguments, node="n", fence=2) == first
    assert git(worktree, "status", "--porcelain") == ""


def test_nothing_changed_is_no_commit(host: OpHost) -> None:
    host.turn(1, {})
    output = host.commit(2).output
    assert output["changed"] is False and output["commit"] == output["parent"] == host.base
    assert host.on_hub(f"refs/crw/flow/{RUN}/commit/n/1") is None


def test_a_conversation_that_goes_on_commits_on_its_own_last_commit(host: OpHost) -> None:
    worktree = host.turn(1, {"one.txt": "1\n"})
    first = host.commit(2).output["commit"]
    assert host.commit(3).output["changed"] is False
    host.next_turn(4, worktree, {"two.txt": "2\n"})
    second = host.commit(5).output
    assert second["parent"] == first and second["paths"] == ["two.txt"]
    assert host.on_hub(f"refs/crw/flow/{RUN}/commit/n/2") == second["commit"]


def test_a_second_executor_call_begins_and_commits_at_the_nodes_last_commit(host: OpHost) -> None:
    first_worktree = host.turn(1, {"one.txt": "1\n"})
    first = host.commit(2).output["commit"]
    second_worktree = host.turn(3, {"two.txt": "2\n"})
    second = host.commit(4).output
    assert second["parent"] == first and git(second_worktree, "rev-parse", "HEAD") == second["commit"]
    assert git(first_worktree, "rev-parse", "HEAD") == first


@pytest.mark.req("O13")
def test_paths_outside_the_declared_regions_are_listed_and_not_refused(host: OpHost) -> None:
    files = {"src/a.py": "1", "src/deep/b.py": "1", " leading space.txt": "1", "docs/x.md": "1", "top.txt": "1"}
    host.turn(1, files)
    output = host.commit(2, regions=["src", "docs/*.md", "./no-such"]).output
    assert output["paths"] == sorted(files)
    assert output["outside_regions"] == [" leading space.txt", "top.txt"]


def test_a_commit_without_a_finished_turn_is_refused_with_a_sentence(host: OpHost) -> None:
    with pytest.raises(FlowError, match="no executor call of it has ended"):
        host.commit(2)
    host.turn(1, {"a": "a"})
    host.row(3, "null_model", node="n", role="executor")
    with pytest.raises(FlowError, match="its last executor call ended null_model"):
        host.commit(4)


@pytest.mark.req("RULE9", "RULE12")
def test_where_the_worktree_is_gone_the_commit_is_made_from_the_hub(host: OpHost, tmp_path: Path) -> None:
    host.turn(1, {"a": "a"})
    (host.state_dir / "flow").rename(tmp_path / "elsewhere")
    host.mirror.rename(tmp_path / "mirror")
    commit = host.commit(2).output["commit"]
    assert host.on_hub(f"refs/crw/flow/{RUN}/commit/n/1") == commit
    assert git(host.hub, "show", f"{commit}:a") == "a"


@pytest.mark.req("RULE7")
def test_a_worker_that_lost_its_right_moves_nothing(host: OpHost) -> None:
    worktree = host.turn(1, {"a": "a"})
    host.leased = False
    with pytest.raises(CallStopped, match="lost"):
        host.commit(2)
    host.leased, host.stop = True, "cancel"
    with pytest.raises(CallStopped, match="cancel"):
        host.commit(2)
    assert git(worktree, "rev-parse", "HEAD") == host.base and host.announced == []
    assert host.on_hub(f"refs/crw/flow/{RUN}/commit/n/1") is None


@pytest.mark.req("W15")
def test_an_older_conversation_that_goes_on_is_committed_where_it_works(host: OpHost) -> None:
    older = host.turn(1, {"one.txt": "1\n"})
    first = host.commit(2).output["commit"]
    host.turn(3, {"two.txt": "2\n"})
    host.commit(4)
    host.store(5, NewCallRow("placed", worktree_kind="continued", worktree_path=str(older), start_commit=host.base))
    host.next_turn(5, older, {"three.txt": "3\n"})
    output = host.commit(6).output
    assert output["parent"] == first and output["paths"] == ["three.txt"]
    assert git(older, "rev-parse", "HEAD") == output["commit"]


def test_a_path_that_is_no_text_goes_into_the_result_and_back(host: OpHost) -> None:
    worktree = host.turn(1, {"a": "a"})
    with open(os.fsencode(worktree) + b"/\xff.txt", "wb") as file:
        file.write(b"x")
    host.next_turn(2, worktree, {})
    paths = host.commit(3).output["paths"]
    assert parse(canonical_bytes(paths)) == paths and os.fsencode(paths[1]) == b"\xff.txt"


@pytest.mark.slow
@pytest.mark.req("K34")
def test_sixteen_nodes_are_made_and_committed_at_once(host: OpHost) -> None:
    failures: list[BaseException] = []

    def lane(number: int) -> None:
        node = f"n{number}"
        try:
            worktree = host.turn(number, {f"{node}.txt": "x"}, node=node)
            commit = host.commit(100 + number, node=node).output["commit"]
            assert git(worktree, "rev-parse", "HEAD") == commit
            assert host.on_hub(f"refs/crw/flow/{RUN}/commit/{node}/1") == commit
        except BaseException as error:  # noqa: BLE001 - shown below, in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=lane, args=[number]) for number in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []

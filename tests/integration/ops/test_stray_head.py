"""Heads that give way to the farm's commit: the executor's own, and a commit that a resume superseded."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.base.errors import WorktreeError
from shared.model.rows import NewCallRow
from tests.integration.ops.host import OpHost
from tests.repositories import commit_files, git
from workers.worktrees.directories import Directories


@pytest.fixture
def host(tmp_path: Path) -> OpHost:
    return OpHost(tmp_path / "h1")


def end_with_own_commit(host: OpHost, position: int, worktree: Path, files: dict[str, str]) -> str:
    """A further executor call that commits its files by itself; its terminal row says so."""
    own = Directories(host.mirrors, host.state_dir, host.spec, host.row(position, "prepared"))
    stray = commit_files(worktree, files, "the model's own")
    moved = own.keep_moved_head(host.rows, worktree, host.keeping)
    tree = own.snapshot(worktree, settled=True)
    own.keep_pending(worktree, tree, host.keeping)
    host.row(position, "completed", role="executor", pending_tree=tree, detail={"executor_head_moved": moved})
    return stray


@pytest.mark.req("O14", "K10", "P14")
def test_the_commit_takes_the_place_of_the_executors_own_and_names_it(host: OpHost) -> None:
    worktree = host.turn(1, {"a.txt": "a\n"})
    first = host.commit(2).output["commit"]
    stray = end_with_own_commit(host, 3, worktree, {"b.txt": "b\n"})

    result = host.commit(4)

    commit = result.output["commit"]
    assert git(worktree, "rev-parse", "HEAD") == commit != stray
    assert (result.output["parent"], result.output["paths"]) == (first, ["b.txt"])
    assert result.facts["stray_head"] == stray
    assert git(worktree, "status", "--porcelain") == ""
    assert git(host.hub, "rev-parse", f"{stray}^{{commit}}") == stray


@pytest.mark.req("O14")
def test_an_own_commit_without_a_change_gives_way_to_the_parent(host: OpHost) -> None:
    worktree = host.turn(1, {"a.txt": "a\n"})
    first = host.commit(2).output["commit"]
    stray = end_with_own_commit(host, 3, worktree, {})

    result = host.commit(4)

    assert (result.output["changed"], result.output["commit"], result.facts["stray_head"]) == (False, first, stray)
    assert git(worktree, "rev-parse", "HEAD") == first


@pytest.mark.req("O14", "P04")
def test_a_head_beyond_the_recorded_one_gives_way_to_nobody(host: OpHost) -> None:
    worktree = host.turn(1, {"a.txt": "a\n"})
    host.commit(2)
    end_with_own_commit(host, 3, worktree, {"b.txt": "b\n"})
    beyond = commit_files(worktree, {"c.txt": "c\n"}, "somebody")

    with pytest.raises(WorktreeError, match="somebody else"):
        host.commit(4)

    assert git(worktree, "rev-parse", "HEAD") == beyond


@pytest.mark.req("O05", "R21")
def test_a_superseded_commit_gives_way_to_the_next_attempts(host: OpHost) -> None:
    worktree = host.turn(1, {"a.txt": "a\n"})
    before = host.commit(2, message="before").output
    host.row(2, "superseded", "commit", detail={"reason": "superseded_by_resume"})

    after = host.run_op_again(2, message="after")

    assert after.output["changed"] and after.output["parent"] == before["parent"] == host.base
    assert after.output["commit"] != before["commit"] and after.output["tree"] == before["tree"]
    assert git(worktree, "rev-parse", "HEAD") == after.output["commit"]
    assert git(host.hub, "rev-parse", f"{before['commit']}^{{commit}}") == before["commit"]
    host.store(2, NewCallRow("completed", after.facts, **after.columns), "commit")

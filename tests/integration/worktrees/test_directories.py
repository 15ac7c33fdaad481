"""The directories of agent calls: made, read, kept, retired, removed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from shared.base.errors import GitError, WorktreeError
from shared.model.allocation import Allocation, AllocationKind
from shared.model.rows import NewCallRow
from tests.integration.worktrees.place import RUN, Place, later
from tests.repositories import commit_files, git, write_files
from workers.worktrees.clean import clean_run
from workers.worktrees.directories import Directories


def directories(place: Place, position: int = 1, node: str | None = "n") -> Directories:
    return Directories(place.mirrors, place.state_dir, place.spec, place.row(position, "prepared", node=node))


def placed(place: Place, position: int, allocation: Allocation) -> None:
    place.store(position, NewCallRow("placed", allocation.detail(), **allocation.columns()))


def made(place: Place, position: int = 1) -> tuple[Directories, Allocation]:
    own = directories(place, position)
    allocation = own.plan_executor(place.rows)
    own.fetch(allocation)
    placed(place, position, allocation)
    own.make(allocation, lambda: None)
    return own, allocation


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


@pytest.mark.req("W01", "W02", "W03")
def test_a_nodes_first_worktree_is_number_one_at_the_base_detached(place: Place) -> None:
    own = directories(place)
    allocation = own.plan_executor(place.rows)
    assert allocation == Allocation(
        AllocationKind.FRESH, 1, 1, place.state_dir / "flow" / RUN / "wt/n/a1-l1", place.base
    )
    assert own.fetch(allocation) == git(place.hub, "rev-parse", "main^{tree}")
    own.make(allocation, lambda: None)
    assert git(allocation.path, "rev-parse", "HEAD") == place.base
    assert git(allocation.path, "symbolic-ref", "-q", "HEAD", check=False) == ""
    assert own.snapshot(allocation.path) == own.fetch(allocation)


@pytest.mark.req("W01", "W03")
def test_the_next_worktree_is_numbered_on_and_starts_at_the_nodes_last_commit(place: Place) -> None:
    made(place)
    commit = commit_files(place.root / "hub.git-work", {"x": "x"})
    place.row(2, "completed", kind="commit", commit_sha=commit)
    place.row(7, "placed", node="n", worktree_kind="call", worktree_path="/elsewhere", start_commit=place.base)
    second = directories(place, 3).plan_executor(place.rows, lineage=2)
    assert (second.number, second.start_commit, second.path.name) == (2, commit, "a2-l2")


@pytest.mark.req("W03")
def test_a_node_that_began_at_a_head_begins_there_again(place: Place) -> None:
    head = commit_files(place.root / "hub.git-work", {"x": "x"})
    first = directories(place).plan_executor(place.rows, head=head)
    assert first.start_commit == head
    placed(place, 1, first)
    assert directories(place, 2).plan_executor(place.rows).start_commit == head


@pytest.mark.req("W16")
def test_a_reader_gets_a_checkout_of_its_own_at_the_head_it_names(place: Place) -> None:
    head = commit_files(place.root / "hub.git-work", {"x": "x"})
    git(place.root / "hub.git-work", "push", "-q", str(place.hub), f"{head}:refs/crw/flow/{RUN}/commit/n/1")
    own = directories(place, node=None)
    assert own.plan_reader(place.rows).start_commit == place.base
    allocation = own.plan_reader(place.rows, head)
    own.make(allocation, lambda: None)
    assert allocation.path.parts[-3:] == ("calls", place.rows[0].call_id, "wt")
    assert (allocation.path / "x").read_text() == "x"
    own.remove(allocation)
    assert not allocation.path.exists() and str(allocation.path) not in git(place.mirror, "worktree", "list")


@pytest.mark.req("W11")
def test_no_two_calls_share_a_directory(place: Place) -> None:
    paths = []
    for position in (1, 2, 3):
        own = directories(place, position)
        fresh = own.plan_executor(place.rows)
        placed(place, position, fresh)
        paths += [fresh.path, own.plan_reader(place.rows).path]
    assert len(set(paths)) == 6


@pytest.mark.req("W04")
def test_what_an_earlier_try_left_half_made_is_made_anew(place: Place) -> None:
    own, allocation = made(place)
    (allocation.path / ".git").unlink()
    write_files(allocation.path, {"left": "over"})
    os.chmod(allocation.path / "src", 0o500)
    own.make(allocation, lambda: None)
    assert own.snapshot(allocation.path) == own.fetch(allocation)


def test_setup_runs_in_the_fresh_worktree_without_the_farms_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CRW_DATABASE_URL", "CODEX_HOME", "OPENAI_API_KEY", "GIT_DIR", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret")
    place = Place(tmp_path / "place", files={".gitignore": "env\n"}, setup="pwd > env; env >> env")
    _, allocation = made(place)
    said = (allocation.path / "env").read_text()
    assert said.startswith(f"{allocation.path}\n") and "PATH=" in said and "secret" not in said


def test_a_setup_that_fails_is_an_error_with_the_end_of_what_it_said(tmp_path: Path) -> None:
    place = Place(tmp_path / "place", setup="echo one; echo 'no such package' >&2; exit 3")
    with pytest.raises(WorktreeError, match=r"setup command ended with status 3: one\nno such package"):
        made(place)


@pytest.mark.req("RULE29")
def test_a_setup_that_hangs_ends_at_its_deadline_with_its_children(tmp_path: Path) -> None:
    place = Place(tmp_path / "place", setup="sleep 300 & sleep 300", setup_timeout_seconds=0.5)
    with pytest.raises(WorktreeError, match="passed its deadline"):
        made(place)


@pytest.mark.req("K32", "RULE9", "A21")
def test_a_pending_tree_is_on_the_hub_before_anybody_may_name_it(place: Place) -> None:
    own, allocation = made(place)
    write_files(allocation.path, {"new.txt": "new\n"})
    tree = own.snapshot(allocation.path, settled=True)
    commit = own.keep_pending(allocation.path, tree, place.keeping)
    ref = f"refs/crw/flow/{RUN}/pending/{place.rows[0].call_id}"
    assert place.on_hub(ref) == commit == git(place.mirror, "rev-parse", ref)
    assert git(place.hub, "rev-parse", f"{commit}^{{tree}}") == tree
    assert [(row.event, row.detail["ref"]) for row in place.intents] == [("push_requested", ref)]


@pytest.mark.req("RULE8")
def test_the_same_pending_tree_is_the_same_commit_and_keeping_it_again_is_no_error(place: Place) -> None:
    own, allocation = made(place)
    tree = own.snapshot(allocation.path)
    assert own.keep_pending(allocation.path, tree, place.keeping) == own.keep_pending(
        allocation.path, tree, place.keeping
    )


def test_a_later_state_of_the_same_call_takes_the_place_of_the_earlier_one(place: Place) -> None:
    own, allocation = made(place)
    own.keep_pending(allocation.path, own.snapshot(allocation.path), place.keeping)
    write_files(allocation.path, {"new.txt": "new\n"})
    commit = own.keep_pending(allocation.path, own.snapshot(allocation.path), place.keeping)
    assert place.on_hub(f"refs/crw/flow/{RUN}/pending/{place.rows[0].call_id}") == commit


@pytest.mark.req("RULE9")
def test_a_hub_that_stays_away_keeps_the_terminal_row_from_being_written(place: Place) -> None:
    own, allocation = made(place)
    place.hub.rename(place.root / "away")
    stopping = iter([False, True])
    keeping = type(place.keeping)(place.intents.append, lambda: next(stopping, True), 30)
    with pytest.raises(GitError):
        own.keep_pending(allocation.path, own.snapshot(allocation.path), keeping)


@pytest.mark.req("K32")
def test_a_collection_of_garbage_takes_nothing_that_was_kept(place: Place) -> None:
    own, allocation = made(place)
    write_files(allocation.path, {"new.txt": "kept work\n"})
    tree = own.snapshot(allocation.path)
    own.keep_pending(allocation.path, tree, place.keeping)
    write_files(allocation.path, {"new.txt": "never kept\n"})
    unkept = own.snapshot(allocation.path)
    for repository in (place.mirror, place.hub):
        git(repository, "gc", "-q", "--prune=now")
        git(repository, "fsck", "--no-progress")
        assert git(repository, "cat-file", "-p", f"{tree}:new.txt") == "kept work"
    assert git(place.mirror, "cat-file", "-t", unkept, check=False) == ""


@pytest.mark.req("W05")
def test_what_stands_in_a_left_worktree_is_kept_under_its_number(place: Place) -> None:
    _, first = made(place)
    write_files(first.path, {"src/app.txt": "an edit of a turn without an answer\n"})
    own = directories(place, 2)
    ref = own.retire(place.rows, place.keeping)
    assert ref == f"refs/crw/flow/{RUN}/retired/n/a1"
    assert git(place.hub, "show", f"{ref}:src/app.txt") == "an edit of a turn without an answer"
    assert git(place.hub, "rev-parse", f"{ref}^") == place.base and first.path.is_dir()
    # Whoever announced the next one died before it was made: what stands is still the first.
    placed(place, 2, own.plan_executor(place.rows))
    assert own.retire(place.rows, place.keeping) == ref


def test_there_is_nothing_to_retire_before_the_first_worktree_or_where_it_cannot_be_read(place: Place) -> None:
    assert directories(place).retire(place.rows, place.keeping) is None
    _, first = made(place)
    (first.path / ".git").unlink()
    assert directories(place, 2).retire(place.rows, place.keeping) is None


def test_clean_takes_directories_and_refs_and_leaves_branches_and_other_runs(place: Place) -> None:
    own, allocation = made(place)
    own.keep_pending(allocation.path, own.snapshot(allocation.path), place.keeping)
    other = later(place.rows[0], run_id="rother2345672")
    foreign = Directories(place.mirrors, place.state_dir, place.spec, other)
    kept = foreign.plan_executor([])
    foreign.make(kept, lambda: None)
    foreign.keep_pending(kept.path, foreign.snapshot(kept.path), place.keeping)
    git(place.hub, "branch", f"crw/{RUN}", "main")

    cleaned = clean_run(place.mirrors, place.state_dir, str(place.hub), RUN)

    ref = f"refs/crw/flow/{RUN}/pending/{place.rows[0].call_id}"
    assert cleaned.hub_refs == cleaned.mirror_refs == (ref,)
    assert str(allocation.path) in cleaned.directories and not allocation.path.exists()
    assert kept.path.is_dir() and foreign.snapshot(kept.path)
    left = git(place.hub, "for-each-ref", "--format=%(refname)").split("\n")
    assert left == [f"refs/crw/flow/rother2345672/pending/{other.call_id}", f"refs/heads/crw/{RUN}", "refs/heads/main"]
    again = clean_run(place.mirrors, place.state_dir, str(place.hub), RUN)
    assert (again.directories, again.mirror_refs, again.hub_refs) == ((), (), ())


def test_clean_works_on_a_host_that_never_had_the_run(place: Place) -> None:
    assert clean_run(place.mirrors, place.state_dir, str(place.hub), RUN).directories == ()


@pytest.mark.req("W05", "RULE9")
def test_a_tree_on_its_way_to_the_hub_outlives_a_collection_of_the_mirror(place: Place) -> None:
    own, allocation = made(place)
    write_files(allocation.path, {"new.txt": "new"})
    tree = own.snapshot(allocation.path)

    def collect(row: NewCallRow) -> None:
        place.intents.append(row)
        git(place.mirror, "gc", "--quiet", "--prune=now")

    commit = own.keep_pending(allocation.path, tree, replace(place.keeping, append=collect))
    ref = f"refs/crw/flow/{RUN}/pending/{place.rows[0].call_id}"
    assert place.on_hub(ref) == commit == git(place.mirror, "rev-parse", ref)
    assert git(place.mirror, "for-each-ref", f"refs/crw/flow/{RUN}/keeping") == ""

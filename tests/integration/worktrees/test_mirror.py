"""The mirror of a hub on one host."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from shared.base.errors import GitError, NotOnHub, WorktreeError
from shared.hub.refs import pending_ref
from tests.integration.worktrees.place import RUN, Place
from tests.repositories import commit_files, git
from workers.worktrees.allocator import make_worktree, remove_worktree
from workers.worktrees.lock import mirror_lock
from workers.worktrees.mirror import PatientMirrors


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


def refs(repository: Path) -> list[str]:
    return [line.split(" ")[0] for line in git(repository, "for-each-ref", "--format=%(refname) x").split("\n") if line]


@pytest.mark.req("RULE39")
def test_it_holds_branches_tags_and_own_refs_and_nothing_else_of_the_hub(place: Place) -> None:
    for name in ("refs/tags/v1", f"refs/crw/flow/{RUN}/commit/n/1", "refs/crw/flow/rother/guard", "refs/pull/1/head"):
        git(place.hub, "update-ref", name, place.base)
    work = place.root / "hub.git-work"
    kept = commit_files(work, {"kept": "on a run's ref only"})
    git(work, "push", "-q", str(place.hub), f"{kept}:refs/crw/flow/{RUN}/commit/n/2")
    mirror = place.mirrors.ensure(str(place.hub), RUN)
    assert refs(mirror) == ["refs/remotes/origin/main", "refs/tags/v1"]
    place.mirrors.ensure(str(place.hub), RUN, [kept])
    own = [f"refs/crw/flow/{RUN}/commit/n/1", f"refs/crw/flow/{RUN}/commit/n/2"]
    assert refs(mirror) == [*own, "refs/remotes/origin/main", "refs/tags/v1"]


def test_a_commit_that_is_there_asks_nobody(place: Place) -> None:
    place.mirrors.ensure(str(place.hub), RUN, [place.base])
    place.hub.rename(place.root / "away")
    place.mirrors.ensure(str(place.hub), RUN, [place.base])
    with pytest.raises(GitError):
        place.mirrors.ensure(str(place.hub), RUN)


def test_a_commit_that_no_ref_names_any_more_is_asked_for_by_its_id(place: Place) -> None:
    work = place.root / "hub.git-work"
    lost = commit_files(work, {"x": "x"})
    git(work, "push", "-q", str(place.hub), f"{lost}:refs/heads/short-lived")
    git(place.hub, "update-ref", "-d", "refs/heads/short-lived")
    place.mirrors.ensure(str(place.hub), RUN, [lost])
    with pytest.raises(GitError, match=r"the hub has no commit 0{40}"):
        place.mirrors.ensure(str(place.hub), RUN, ["0" * 40])


def test_a_call_waits_for_a_hub_that_is_away(place: Place) -> None:
    away = place.hub.rename(place.root / "away")
    asked: list[str] = []

    def come_back() -> None:
        if not asked:
            away.rename(place.hub)
        asked.append("")

    mirrors = PatientMirrors(place.mirrors, come_back)
    assert mirrors.ensure(str(place.hub), RUN, [place.base]) == place.mirrors.path_of(str(place.hub))
    assert asked


def test_a_call_waits_for_nothing_that_the_hub_has_not(place: Place) -> None:
    place.mirrors.ensure(str(place.hub), RUN)
    mirrors = PatientMirrors(place.mirrors, lambda: pytest.fail("it waits"))
    with pytest.raises(NotOnHub, match=r"the hub has no commit 0{40}"):
        mirrors.ensure(str(place.hub), RUN, ["0" * 40])
    with pytest.raises(GitError, match="couldn't find remote ref"):
        mirrors.ensure_tree(str(place.hub), RUN, "0" * 40, pending_ref(RUN, "c1"))


def test_a_call_that_is_to_end_waits_for_no_hub(place: Place) -> None:
    place.hub.rename(place.root / "away")
    with pytest.raises(GitError):
        PatientMirrors(place.mirrors, lambda: "cancel").ensure(str(place.hub), RUN)


def test_branches_that_change_their_shape_on_the_hub_are_followed(place: Place) -> None:
    git(place.hub, "branch", "topic", "main")
    mirror = place.mirrors.ensure(str(place.hub), RUN)
    git(place.hub, "branch", "-D", "topic")
    git(place.hub, "branch", "topic/one", "main")
    place.mirrors.ensure(str(place.hub), RUN)
    assert refs(mirror) == ["refs/remotes/origin/main", "refs/remotes/origin/topic/one"]


@pytest.mark.req("K34")
def test_sixteen_threads_add_worktrees_and_fetch_at_once(place: Place) -> None:
    failures: list[BaseException] = []
    paths = [place.state_dir / "wt" / f"n{number}" / "a1-l1" for number in range(16)]

    def work(path: Path) -> None:
        try:
            mirror = place.mirrors.ensure(str(place.hub), RUN, [place.base])
            make_worktree(place.git, mirror, path, place.base)
            place.mirrors.ensure(str(place.hub), RUN)
            if path.parent.name.endswith("5"):
                remove_worktree(place.git, mirror, path)
        except BaseException as error:  # noqa: BLE001 - shown below, in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=[path]) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    listed = git(place.mirror, "worktree", "list", "--porcelain")
    for path in paths:
        assert (f"worktree {path}\n" in listed) == path.is_dir() == (not path.parent.name.endswith("5"))


@pytest.mark.req("K34")
def test_a_lock_that_stays_taken_is_an_error_at_its_deadline(place: Place) -> None:
    started = time.monotonic()
    with (
        mirror_lock(place.mirror, 1),
        pytest.raises(WorktreeError, match="was locked"),
        mirror_lock(place.mirror, 0.2),
    ):
        pass
    assert time.monotonic() - started < 5
    with mirror_lock(place.mirror, 0):
        pass


def test_locks_that_a_killed_git_left_are_swept(place: Place) -> None:
    mirror = place.mirrors.ensure(str(place.hub), RUN, [place.base])
    path = place.state_dir / "wt/n/a1-l1"
    make_worktree(place.git, mirror, path, place.base)
    left = [
        mirror / "packed-refs.lock",
        mirror / "refs/remotes/origin/main.lock",
        mirror / "worktrees/a1-l1/index.lock",
    ]
    for lock in left:
        lock.touch()
    assert sorted(place.mirrors.sweep_stale_locks()) == sorted(left)
    assert place.mirrors.sweep_stale_locks() == []
    make_worktree(place.git, mirror, path, place.base)


def test_no_url_of_the_hub_is_written_where_an_agent_looks(place: Place) -> None:
    mirror = place.mirrors.ensure(str(place.hub), RUN)
    assert git(mirror, "remote") == ""

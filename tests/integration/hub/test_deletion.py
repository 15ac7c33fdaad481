"""A run's refs go from the hub, and none of a run that was resumed meanwhile, however late the hub comes to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.base.command import KILL_GRACE_SECONDS
from shared.base.errors import GitError, GitTimeout
from shared.hub import deletion
from shared.hub.deletion import delete_run_refs
from shared.hub.git import Git
from shared.hub.guard import move_guard
from shared.hub.refs import commit_ref, guard_ref, pending_ref, read_refs, run_namespace
from shared.journal import removals
from tests.integration.hub.test_push import RUN, TARGET, Place
from tests.repositories import refuse_pushes, served
from tests.waiting import wait_until

# The first push lies at the hub until it is let through, whoever sent it; the hook's parent applies it then.
LATE = """#!/bin/sh
mkdir "{place}/first" 2>/dev/null || exit 0
echo $PPID > "{place}/pid.new" && mv "{place}/pid.new" "{place}/pid"
while [ ! -e "{place}/go" ]; do sleep 0.1; done
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_deleting_a_runs_refs_leaves_branches_and_other_runs(place: Place) -> None:
    hub = str(place.hub)
    other = "refs/crw/flow/rbbbbbbbbbbbb/guard"
    mine = [f"refs/crw/flow/{RUN}/commit/n/1", f"refs/crw/flow/{RUN}/pending/c"]
    for ref in [*mine, other, TARGET]:
        assert place.push({ref: place.first}, {ref: None}).ok
    assert delete_run_refs(place.git, hub, RUN) == mine
    assert delete_run_refs(place.git, hub, RUN) == []
    assert set(read_refs(place.git, hub, other, TARGET)) == {other, TARGET}


@pytest.mark.req("RULE39")
def test_a_removal_waits_for_no_hub_longer_than_its_right_lasts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    assert deletion.DELETION_SECONDS + KILL_GRACE_SECONDS < removals._HOLD_SECONDS
    assert place.push({guard_ref(RUN): place.first}, {guard_ref(RUN): None}).ok
    hook = place.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nsleep 20\n", encoding="utf-8")
    hook.chmod(0o755)
    monkeypatch.setattr(deletion, "DELETION_SECONDS", 1.0)
    with pytest.raises(GitTimeout):
        delete_run_refs(Git(600), str(place.hub), RUN)


def refs_of(place: Place) -> dict[str, str]:
    return read_refs(place.git, str(place.hub), f"{run_namespace(RUN)}/*")


def is_over(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet has no command line."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


@pytest.mark.req("RULE7", "RULE39")
@pytest.mark.parametrize("guarded", [False, True], ids=["first_guard", "guard_there"])
def test_a_deletion_that_was_given_up_is_not_applied_to_a_run_that_goes_on(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    if guarded:
        move_guard(place.git, str(place.hub), RUN, "integrate")
    left = {pending_ref(RUN, "c"): place.first, commit_ref(RUN, "n", 1): place.second}
    assert place.push(left, dict.fromkeys(left)).ok
    hook = place.hub / "hooks" / "pre-receive"
    hook.write_text(LATE.format(place=tmp_path), encoding="utf-8")
    hook.chmod(0o755)
    monkeypatch.setattr(deletion, "DELETION_SECONDS", 3.0)
    with served(tmp_path) as url:
        with pytest.raises(GitTimeout):
            delete_run_refs(Git(600), f"{url}/hub.git", RUN)
        wait_until((tmp_path / "pid").exists, 20, "the push to lie at the hub")
        guard = move_guard(place.git, str(place.hub), RUN, "resume")
        (tmp_path / "go").touch()
        wait_until(lambda: is_over(int((tmp_path / "pid").read_text())), 20, "the hub to be through with the push")
        assert refs_of(place) == {**left, guard_ref(RUN): guard}
        assert delete_run_refs(place.git, f"{url}/hub.git", RUN) == sorted([*left, guard_ref(RUN)])
    assert refs_of(place) == {}


def test_more_refs_than_go_in_one_push_are_deleted_and_so_are_those_that_another_remover_left(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_BATCH", 2)
    left = {commit_ref(RUN, "n", number): place.first for number in range(5)}
    assert place.push(left, dict.fromkeys(left)).ok
    others = iter([commit_ref(RUN, "n", 0)])

    def go_on() -> None:
        # Between the look at the hub and the push of what was seen there.
        for ref in others:
            assert place.push({ref: ""}, {ref: place.first}).ok

    deleted = delete_run_refs(place.git, str(place.hub), RUN, go_on)
    assert deleted == sorted(left) and refs_of(place) == {}, "the guard that this needed is gone with them"


def test_a_hub_that_refuses_deletions_is_told_of_with_its_own_words(place: Place) -> None:
    left = {pending_ref(RUN, "c"): place.first}
    assert place.push(left, dict.fromkeys(left)).ok
    refuse_pushes(place.hub, "nothing goes here")
    with pytest.raises(GitError, match="nothing goes here"):
        delete_run_refs(place.git, str(place.hub), RUN)
    assert refs_of(place) == left

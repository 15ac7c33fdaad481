"""Pushes with leases, and the guard that shuts out whoever lost the right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shared.base.errors import GitError
from shared.hub.git import Git
from shared.hub.guard import move_guard, push_guarded
from shared.hub.push import Pushed, patiently, push
from shared.hub.refs import guard_ref, read_ref
from tests.repositories import commit_files, git, make_bare_hub

RUN = "raaaaaaaaaaaa"
TARGET = "refs/heads/target"


class Place:
    """A hub, a clone of it to push from, and two commits to push."""

    def __init__(self, root: Path) -> None:
        self.hub = make_bare_hub(root / "hub.git")
        git(root, "clone", "-q", str(self.hub), "mirror")
        self.mirror = root / "mirror"
        self.first = commit_files(self.mirror, {"a": "1"})
        self.second = commit_files(self.mirror, {"a": "2"})
        self.git = Git(30)

    def push(self, refs: dict[str, str], expect: dict[str, str | None]) -> Pushed:
        return push(self.git, self.mirror, str(self.hub), refs, expect)

    def read(self, ref: str) -> str | None:
        return read_ref(self.git, str(self.hub), ref)


def push_until_mended(place: Place, mend: Callable[[], object], seconds: float = 30) -> None:
    """Push patiently where the first attempt fails, and the second one comes after `mend`."""
    tries = []

    def attempt() -> Pushed:
        tries.append(1)
        if len(tries) == 2:
            mend()
        return place.push({TARGET: place.first}, {TARGET: None})

    assert patiently(attempt, lambda: False, seconds).ok
    assert len(tries) == 2


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_ref_is_made_only_where_none_is_and_moved_only_from_its_lease(place: Place) -> None:
    assert place.push({TARGET: place.first}, {TARGET: None}).ok
    assert not place.push({TARGET: place.second}, {TARGET: None}).ok
    assert place.read(TARGET) == place.first
    assert place.push({TARGET: place.second}, {TARGET: place.first}).ok
    assert place.read(TARGET) == place.second


def test_one_refused_ref_refuses_the_whole_push(place: Place) -> None:
    other = "refs/heads/other"
    pushed = place.push({TARGET: place.first, other: place.first}, {TARGET: None, other: place.second})
    assert not pushed.ok and "stale info" in pushed.reason
    assert place.read(TARGET) is None and place.read(other) is None


def test_a_hook_of_the_hub_is_heard_as_a_refusal_with_its_words(place: Place) -> None:
    hook = place.hub / "hooks" / "update"
    hook.write_text("#!/bin/sh\necho frozen until Monday >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    pushed = place.push({TARGET: place.first}, {TARGET: None})
    assert not pushed.ok and "hook declined" in pushed.reason and "frozen until Monday" in pushed.reason


def test_a_hub_that_is_away_is_an_error_and_not_a_refusal(place: Place, tmp_path: Path) -> None:
    place.hub.rename(tmp_path / "away")
    with pytest.raises(GitError):
        place.push({TARGET: place.first}, {TARGET: None})


@pytest.mark.req("RULE9")
def test_a_patient_push_waits_for_a_hub_that_comes_back(place: Place, tmp_path: Path) -> None:
    place.hub.rename(tmp_path / "away")
    push_until_mended(place, lambda: (tmp_path / "away").rename(place.hub))


@pytest.mark.req("RULE9")
def test_a_patient_push_waits_for_a_hub_that_hangs(place: Place, tmp_path: Path) -> None:
    hook, hangs = place.hub / "hooks" / "pre-receive", tmp_path / "hangs"
    hook.write_text(f"#!/bin/sh\nwhile [ -e {hangs} ]; do sleep 0.1; done\n", encoding="utf-8")
    hook.chmod(0o755)
    hangs.touch()
    place.git = Git(2)

    def mend() -> None:
        hangs.unlink()
        place.git = Git(30)

    push_until_mended(place, mend, 60)


@pytest.mark.req("RULE9")
def test_a_patient_push_waits_for_a_hub_whose_hook_gets_no_answer(place: Place) -> None:
    hook = place.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho GitLab: Internal API unreachable >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    push_until_mended(place, hook.unlink)


@pytest.mark.req("RULE9")
def test_a_patient_push_waits_for_a_ref_that_somebody_has_locked(place: Place) -> None:
    lock = place.hub / f"{TARGET}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    push_until_mended(place, lock.unlink)


@pytest.mark.req("RULE9")
def test_a_hub_that_admits_nobody_is_believed_once_that_has_stood(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = tmp_path / "ssh"
    door.write_text("#!/bin/sh\necho 'git@hub: Permission denied (publickey).' >&2\nexit 255\n", encoding="utf-8")
    door.chmod(0o755)
    monkeypatch.setenv("GIT_SSH", str(door))
    tries = []

    def attempt() -> Pushed:
        tries.append(1)
        hub = "git@hub:a.git" if len(tries) < opens_at else str(place.hub)
        return push(place.git, place.mirror, hub, {TARGET: place.first}, {TARGET: None})

    opens_at = 2
    assert patiently(attempt, lambda: False, 3600).ok
    assert len(tries) == 2
    monkeypatch.setattr("shared.hub.push._DOUBTFUL_SECONDS", 1.5)
    tries.clear()
    opens_at = 100
    with pytest.raises(GitError, match="publickey"):
        patiently(attempt, lambda: False, 3600)
    assert len(tries) == 2


def test_a_patient_push_gives_up_when_it_has_to_stop(place: Place, tmp_path: Path) -> None:
    place.hub.rename(tmp_path / "away")
    with pytest.raises(GitError):
        patiently(lambda: place.push({TARGET: place.first}, {TARGET: None}), lambda: True, 30)


def test_a_push_that_git_itself_refuses_is_not_tried_again(place: Place) -> None:
    tries = []

    def attempt() -> Pushed:
        tries.append(1)
        return place.push({TARGET: "no-such-object"}, {TARGET: None})

    with pytest.raises(GitError, match="src refspec no-such-object does not match any"):
        patiently(attempt, lambda: False, 30)
    assert len(tries) == 1


def test_a_guard_that_the_hub_takes_from_nobody_is_given_up_at_once(place: Place) -> None:
    hook = place.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    tries = []

    def attempt() -> str:
        tries.append(1)
        return move_guard(place.git, str(place.hub), RUN, "cancel")

    with pytest.raises(GitError, match="hook declined"):
        patiently(attempt, lambda: False, 30)
    assert len(tries) == 1


def test_a_push_that_a_hook_of_the_hub_aborts_is_not_tried_again(place: Place) -> None:
    hook = place.hub / "hooks" / "reference-transaction"
    hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    tries = []

    def attempt() -> Pushed:
        tries.append(1)
        return place.push({TARGET: place.first}, {TARGET: None})

    with pytest.raises(GitError, match="aborted by hook"):
        patiently(attempt, lambda: False, 30)
    assert len(tries) == 1


@pytest.mark.req("RULE7")
def test_a_push_whose_intent_is_older_than_a_cancel_moves_nothing(place: Place) -> None:
    hub = str(place.hub)
    read_before = place.read(guard_ref(RUN))
    moved = move_guard(place.git, hub, RUN, "cancel")
    late = push_guarded(
        place.git, place.mirror, hub, RUN, {TARGET: place.first}, {TARGET: None}, read_before, "integrate"
    )
    assert not late.ok and place.read(TARGET) is None and place.read(guard_ref(RUN)) == moved


@pytest.mark.req("RULE7")
def test_every_guarded_push_moves_the_guard(place: Place) -> None:
    hub = str(place.hub)
    assert push_guarded(place.git, place.mirror, hub, RUN, {TARGET: place.first}, {TARGET: None}, None, "a").ok
    guard = place.read(guard_ref(RUN))
    assert guard is not None
    moves: tuple[dict[str, str], dict[str, str | None]] = ({TARGET: place.second}, {TARGET: place.first})
    assert not push_guarded(place.git, place.mirror, hub, RUN, *moves, None, "b").ok
    assert push_guarded(place.git, place.mirror, hub, RUN, *moves, guard, "b").ok
    assert place.read(guard_ref(RUN)) not in (None, guard)

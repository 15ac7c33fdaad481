"""Mirrors are packed now and then, and nothing that a run may still name goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.integration.worktrees.place import Place
from tests.integration.worktrees.test_directories import made
from tests.repositories import git, write_files
from workers.worktrees.lock import mirror_lock
from workers.worktrees.maintenance import maintain_mirrors

_THREE_WEEKS_SECONDS = 21 * 86400.0


def age(mirror: Path, thing: str) -> None:
    """Let an object be one that nobody has touched for long."""
    then = time.time() - _THREE_WEEKS_SECONDS
    os.utime(mirror / "objects" / thing[:2] / thing[2:], (then, then))


def blob(place: Place, text: str) -> str:
    return place.git.run(place.mirror, "hash-object", "-w", "--stdin", input=text.encode()).line


@pytest.mark.req("RULE39")
def test_a_mirror_that_has_grown_is_packed_and_only_what_nobody_names_for_long_goes(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    own, allocation = made(place)
    write_files(allocation.path, {"new.txt": "kept work\n"})
    kept = own.snapshot(allocation.path)
    own.keep_pending(allocation.path, kept, place.keeping)
    old, young = blob(place, "nobody's, and old"), blob(place, "named in a moment")
    for thing in (old, kept):
        age(place.mirror, thing)
    assert maintain_mirrors(place.mirrors) == []
    with mirror_lock(place.mirror, 0):
        assert maintain_mirrors(place.mirrors, loose_objects=1) == []
    assert maintain_mirrors(place.mirrors, loose_objects=1) == [place.mirror]
    there = [git(place.mirror, "cat-file", "-t", thing, check=False) for thing in (kept, young, old)]
    assert there == ["tree", "blob", ""]
    assert list(place.mirror.glob("objects/pack/*.pack")) and own.snapshot(allocation.path) == kept
    assert git(allocation.path, "rev-parse", "HEAD") == place.base

"""Mirrors are packed now and then, and nothing that a run may still name goes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from shared.base.errors import GitTimeout
from shared.hub.git import Git, Result
from tests.integration.worktrees.place import Place
from tests.integration.worktrees.test_directories import made
from tests.repositories import git, write_files
from workers.worktrees.lock import mirror_lock
from workers.worktrees.maintenance import maintain_mirrors
from workers.worktrees.mirror import Mirrors

_THREE_WEEKS_SECONDS = 21 * 86400.0


class EndedGit(Git):
    """git whose collection is ended over the pack it writes: that file stays, as large as it was by then."""

    def run(self, directory: Path | str, *args: str, **options: Any) -> Result:
        if args[0] != "gc":
            return super().run(directory, *args, **options)
        Path(directory, "objects/pack/tmp_pack_half").write_bytes(b"PACK")
        raise GitTimeout("git gc passed its deadline and was ended")


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


@pytest.mark.req("RULE39")
def test_a_collection_that_is_ended_leaves_no_half_a_pack_and_what_somebody_writes_stays(tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    made(place)
    packs = place.mirror / "objects" / "pack"
    packs.mkdir(exist_ok=True)
    (packs / "tmp_pack_of_a_dead_worker").write_bytes(b"PACK")
    with (packs / "tmp_pack_being_written").open("wb"):
        assert maintain_mirrors(Mirrors(place.mirrors.state_dir, EndedGit()), loose_objects=1) == []
        assert [path.name for path in packs.glob("tmp_pack_*")] == ["tmp_pack_being_written"]
    assert maintain_mirrors(place.mirrors) == [] and not list(packs.glob("tmp_pack_*"))

"""What a boundary's worktree takes the place of is kept, also when that happens twice in one resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.hub.refs import superseded_ref
from shared.model.boundary import Boundary
from tests.integration.worktrees.place import RUN, Place
from tests.repositories import git
from workers.worktrees.directories import Directories


@pytest.mark.req("W06", "RULE9")
def test_a_second_preserve_of_one_node_in_one_resume_takes_nothing_from_the_first(tmp_path: Path) -> None:
    place = Place(tmp_path)
    directories = Directories(place.mirrors, place.state_dir, place.spec, place.row(1, "prepared"))
    allocation = directories.plan_executor(place.rows)
    placed = place.row(1, "placed", host="h1", detail=allocation.detail(), **allocation.columns())
    directories.make(allocation, lambda: False)
    refs = []
    for attempt, text in enumerate(("first", "second", "second"), 1):
        (allocation.path / "made.txt").write_text(text)
        again = place.row(2, "prepared", attempt=min(attempt, 2))
        successor = Directories(place.mirrors, place.state_dir, place.spec, again)
        refs.append(successor.preserve([placed], Boundary(1), "h1", place.keeping).detail["ref"])
    first, second, third = refs
    assert first == superseded_ref(RUN, 1, "main", "n") and second == third == f"{first}-2"
    assert [git(place.hub, "show", f"{ref}:made.txt") for ref in refs] == ["first", "second", "second"]

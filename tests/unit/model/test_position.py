"""An item's path is made of its key, whatever stands in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.position import ROOT_PATH, child_path, find_named, parent_of

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.req("DEF1", "R19")
@given(st.lists(st.tuples(st.integers(1, 10**6), KEYS), max_size=4))
def test_a_path_reads_back_to_the_keys_and_positions_it_was_made_of(steps: list[tuple[int, str]]) -> None:
    path = ROOT_PATH
    for position, key in steps:
        path = child_path(path, position, key)
    read = []
    while (above := parent_of(path)) is not None:
        path, position, key = above
        read.append((position, key))
    assert path == ROOT_PATH and read[::-1] == steps


@pytest.mark.req("DEF1")
def test_a_key_that_looks_like_a_path_stays_one_key() -> None:
    assert child_path(ROOT_PATH, 2, "a/1[b]") == "main/2[a%2F1%5Bb%5D]"


@pytest.mark.req("R19")
def test_a_place_is_found_as_it_is_recorded_and_as_tables_show_it() -> None:
    recorded = [f"{child_path(ROOT_PATH, 1, key)}:1" for key in ("ä", "a b", "%41")]
    for shown, name in (("ä", recorded[0]), ("a b", recorded[1]), ("%41", recorded[2])):
        assert find_named(f"main/1[{shown}]:1", recorded) == find_named(name, recorded) == name
    assert find_named("main/1[A]:1", recorded) is None


@pytest.mark.req("R19")
def test_what_could_be_two_places_is_none_until_it_is_written_as_recorded() -> None:
    one, other = "main/1[a%5D/2%5Bb]:1", "main/1[a]/2[b]:1"
    assert find_named("main/1[a]/2[b]:1", [one, other]) == other
    two = ["main/1[a%5D/2%5Bb]:1", "main/1[a%5D%2F2[b]:1"]
    assert find_named("main/1[a]/2[b]:1", two) is None

"""An item's path is made of its key, whatever stands in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.position import ROOT_PATH, child_path, parent_of

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

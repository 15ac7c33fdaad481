"""The position at which a fork begins, as people write it."""

from __future__ import annotations

import pytest

from scheduler.forking import parse_place
from shared.base.errors import UsageError


@pytest.mark.parametrize(
    ("text", "place"),
    [("main:3", ("main", 3)), ("main/2[q:2]:14", ("main/2[q:2]", 14)), ("main:01", ("main", 1))],
)
def test_a_place_is_a_path_and_a_number(text, place):
    assert parse_place(text) == place


@pytest.mark.parametrize(
    "text",
    ["", "main", ":1", "main:", "main:0", "main:-1", "main:+1", "main: 1", "main:1e3", "main:²", "main:٣", "main:1\n",
     "main:" + "9" * 5000],
)  # fmt: skip
def test_what_is_no_place_is_refused_and_said(text):
    with pytest.raises(UsageError, match="is no position; write path and number, for instance main:3"):
        parse_place(text)

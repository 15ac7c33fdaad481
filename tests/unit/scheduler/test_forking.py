"""The position at which a fork begins, as people write it."""

from __future__ import annotations

import pytest

from scheduler.forking import parse_place, told_refs
from shared.base.errors import UsageError
from tests.factories import make_call_row


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


@pytest.mark.req("RULE16")
def test_what_a_call_is_told_of_comes_along() -> None:
    told = {
        "ref": "refs/crw/flow/r/superseded/1/main@n",
        "held": [{"ref": "refs/crw/flow/r/superseded/1/main@n-held-c"}],
    }
    rows = [
        make_call_row(event="placed", node_id="n", allocation=2, detail={"kept": ["refs/crw/flow/r/pending/c0"]}),
        make_call_row(event="worktree_preserved", node_id="n", detail=told),
        make_call_row(event="worktree_preserved", node_id="n", detail={"ref": None, "held": []}),
        make_call_row(event="placed", node_id=None),
    ]
    assert told_refs("r", rows) == {
        "refs/crw/flow/r/retired/n/a2", "refs/crw/flow/r/pending/c0", told["ref"], told["held"][0]["ref"],
    }  # fmt: skip

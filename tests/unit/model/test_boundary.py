"""What a node's rows leave for its next worktree: the last commit, and the tree that no commit carries."""

from __future__ import annotations

from typing import Any

import pytest

from shared.model.boundary import Boundary, HeldTree, boundary_of, standing
from shared.model.rows import CallRow
from tests.factories import make_call_row


def placed(seq: int, call: str, kind: str = "fresh", **detail: Any) -> CallRow:
    return make_call_row(seq=seq, call_id=call, event="placed", worktree_kind=kind, detail=detail)


def end(seq: int, call: str, tree: str | None = None, event: str = "completed") -> CallRow:
    return make_call_row(seq=seq, call_id=call, event=event, pending_tree=tree)


def commit(seq: int, sha: str, tree: str, call: str = "k") -> CallRow:
    return make_call_row(seq=seq, call_id=call, kind="commit", event="completed", commit_sha=sha, detail={"tree": tree})


def left(*rows: CallRow) -> tuple[str | None, str | None, str | None]:
    found = boundary_of(rows)
    return found.commit, found.tree, found.tree_of


@pytest.mark.req("R26")
def test_a_node_that_nobody_worked_on_begins_where_its_first_worktree_does() -> None:
    assert left() == (None, None, None)
    assert left(placed(1, "c1")) == (None, None, None)


@pytest.mark.req("R26", "R27")
def test_the_tree_is_the_newest_that_no_commit_carries() -> None:
    rows = [placed(1, "c1"), end(2, "c1", "t1"), end(3, "c2", "t2")]
    assert left(*rows) == (None, "t2", "c2")
    assert left(*rows, commit(4, "k1", "t2")) == ("k1", None, None)
    assert left(*rows, commit(4, "k1", "t2"), end(5, "c3", "t3")) == ("k1", "t3", "c3")


@pytest.mark.req("R27")
def test_coverage_goes_by_tree_and_not_by_the_order_of_rows() -> None:
    rows = [placed(1, "c1"), end(2, "c1", "t1"), end(3, "c2", "t2"), commit(4, "k1", "t1")]
    assert left(*rows) == ("k1", "t2", "c2"), "the commit was made of the call before the newest"


@pytest.mark.req("R27", "W03")
def test_a_fresh_worktree_gives_up_what_the_one_before_it_held_and_a_restored_one_does_not() -> None:
    rows = [placed(1, "c1"), end(2, "c1", "t1")]
    assert left(*rows, placed(3, "c2"), end(4, "c2", None, "null_model")) == (None, None, None)
    restored = placed(3, "c2", "restore", tree="t1", tree_of="c1")
    assert left(*rows, restored, end(4, "c2", None, "null_model")) == (None, "t1", "c1")
    assert left(*rows, placed(3, "c2", "continued"), end(4, "c2", None, "null_model")) == (None, "t1", "c1")


@pytest.mark.req("R29")
def test_what_was_superseded_changes_no_boundary() -> None:
    rows = [placed(1, "c1"), end(2, "c1", "t1"), commit(3, "k1", "t1"), end(4, "c2", "t2")]
    gone = [placed(5, "c3", "restore"), end(6, "c3", "t3"), commit(7, "k2", "t3", call="k3")]
    after = [end(8, "c3", event="superseded"), end(9, "k3", event="superseded")]
    assert left(*rows, *gone, *after) == left(*rows) == ("k1", "t2", "c2")
    assert [row.seq for row in standing([*rows, *gone, *after])] == [1, 2, 3, 4]
    assert left(*rows, *gone, *after, end(10, "c3", "t9")) == ("k1", "t9", "c3"), "its next attempt counts again"


def test_a_boundary_reads_as_it_was_written() -> None:
    boundary = Boundary(2, "k1", "t1", "c1", (HeldTree("c2", "t2"),), {"condition": "c"})
    assert Boundary.read(boundary.to_json()) == boundary
    assert Boundary.read(None) is None


@pytest.mark.req("R40", "R29")
def test_a_withdrawn_opening_takes_back_nothing_of_the_call_that_was_held_before_it() -> None:
    rows = [
        placed(1, "c1"), end(2, "c1", None, "held"),
        make_call_row(seq=3, call_id="c1", attempt=1, event="hold_cleared"),
        make_call_row(seq=4, call_id="c1", attempt=1, event="withdrawn"),
    ]  # fmt: skip
    assert [row.seq for row in standing(rows)] == [1, 2]
    gone_on = make_call_row(seq=5, call_id="c1", attempt=2, event="completed", pending_tree="t1")
    assert left(*rows, gone_on) == (None, "t1", "c1")
    assert standing([placed(1, "c1"), make_call_row(seq=2, call_id="c1", event="withdrawn")]) == []

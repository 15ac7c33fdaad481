"""What a node's rows say about its worktrees and commits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from shared.model.rows import CallRow
from workers.worktrees.history import read_history

_EMPTY: dict[str, Any] = dict.fromkeys(CallRow.__struct_fields__)


def row(seq: int, event: str, kind: str = "agent", **columns: Any) -> CallRow:
    fixed = {"seq": seq, "event": event, "kind": kind, "detail": {}, "written_at": datetime(2026, 1, 1, tzinfo=UTC)}
    return CallRow(**{**_EMPTY, **fixed, **columns})


def placed(seq: int, number: int, start: str, call_id: str | None = None) -> CallRow:
    path = f"/a{number}"
    return row(
        seq, "placed", call_id=call_id, worktree_kind="fresh", allocation=number, start_commit=start, worktree_path=path
    )


def commit(seq: int, sha: str, kept: bool = True, worktree: str = "/a1") -> CallRow:
    detail = {"worktree": worktree, **({"ref": "r"} if kept else {})}
    return row(seq, "completed", kind="commit", commit_sha=sha, detail=detail)


def test_a_node_without_rows_begins_at_the_head_else_the_base() -> None:
    history = read_history([])
    assert (history.placed, history.allocations, history.parent, history.last_turn) == (None, 0, None, None)
    assert history.start_commit("head", "base") == "head" and history.start_commit(None, "base") == "base"


@pytest.mark.req("W01", "W03")
def test_allocations_are_counted_from_placed_rows_of_the_nodes_own_worktrees() -> None:
    reader = row(2, "placed", worktree_kind="call", allocation=None, start_commit="x")
    history = read_history([placed(1, 1, "base"), reader, placed(3, 2, "c1")])
    assert history.allocations == 2 and history.first_start == "base"
    assert history.placed is not None and history.placed.worktree_path == "/a2"


@pytest.mark.req("O11")
def test_the_parent_is_the_last_commit_in_the_newest_worktree_else_where_it_began() -> None:
    rows = [placed(1, 1, "base"), commit(2, "c1"), placed(3, 2, "c1")]
    assert read_history(rows).parent == "c1"
    assert read_history([*rows, commit(4, "c2", worktree="/a2")]).parent == "c2"
    assert read_history([placed(1, 1, "base")]).parent == "base"


@pytest.mark.req("W03")
def test_a_new_worktree_begins_at_the_last_commit_whatever_head_is_named() -> None:
    assert read_history([placed(1, 1, "base"), commit(2, "c1")]).start_commit("head", "base") == "c1"
    assert read_history([placed(1, 1, "first")]).start_commit("head", "base") == "first"


def test_only_commits_with_a_ref_take_a_number() -> None:
    rows = [placed(1, 1, "base"), commit(2, "c1"), commit(3, "c1", kept=False)]
    assert read_history(rows).kept_commits == 1


def test_the_last_turn_is_the_last_executor_call_that_ran_to_an_end() -> None:
    done = row(2, "completed", call_id="c1", pending_tree="t")
    held = row(3, "held", call_id="c2")
    gone = row(4, "withdrawn", call_id="c3")
    assert read_history([placed(1, 1, "b"), done, held, gone]).last_turn == held
    assert read_history([gone, done]).last_turn == done


@pytest.mark.req("W15")
def test_an_older_conversation_that_goes_on_works_where_it_began() -> None:
    rows = [
        placed(1, 1, "base"),
        row(2, "completed", call_id="c1"),
        commit(3, "k1"),
        placed(4, 2, "k1"),
        row(5, "completed", call_id="c2"),
        commit(6, "k2", worktree="/a2"),
        row(7, "placed", call_id="c3", worktree_kind="continued", worktree_path="/a1", start_commit="base"),
        row(8, "completed", call_id="c3", pending_tree="t"),
    ]
    history = read_history(rows)
    assert (history.worked_in, history.parent, history.last_commit) == ("/a1", "k1", "k2")
    assert history.placed is not None and history.placed.worktree_path == "/a2"


def superseded(seq: int, call_id: str, kind: str = "agent") -> CallRow:
    return row(seq, "superseded", kind=kind, call_id=call_id)


@pytest.mark.req("R26", "R28")
def test_a_superseded_attempt_leaves_its_numbers_and_nothing_else() -> None:
    rows = [
        placed(1, 1, "base", "c1"),
        row(2, "completed", call_id="c1", pending_tree="t1"),
        commit(3, "k1"),
        row(4, "completed", call_id="c2", pending_tree="t2"),
        row(5, "completed", kind="commit", call_id="k", commit_sha="k2", detail={"worktree": "/a1", "ref": "r"}),
        superseded(6, "c2"),
        superseded(7, "k", kind="commit"),
    ]
    history = read_history(rows)
    assert history.last_turn is not None and history.last_turn.call_id == "c1"
    assert (history.last_commit, history.parent, history.undone, history.kept_commits) == ("k1", "k1", ("k2",), 2)


@pytest.mark.req("R26", "R29")
def test_a_restored_worktree_is_the_node_s_newest_and_takes_a_number_also_when_no_call_came_to_adopt_it() -> None:
    restored = row(4, "worktree_restored", call_id="c2", worktree_kind="restore", worktree_path="/a2", allocation=2)
    rows = [placed(1, 1, "base", "c1"), row(2, "completed", call_id="c1", pending_tree="t1"), restored]
    history = read_history([*rows, superseded(5, "c2")])
    assert history.allocations == 2 and history.placed is not None and history.placed.worktree_path == "/a2"
    assert history.worked_in == "/a1", "a worktree that nobody worked in is nobody's to commit from"


@pytest.mark.req("RULE12", "O11")
def test_a_commit_that_another_host_made_leaves_head_where_it_was() -> None:
    made = replace(placed(1, 1, "base"), host="h1")
    rows = [made, replace(commit(2, "k1"), host="h1"), replace(commit(3, "k2"), host="h2")]
    history = read_history(rows)
    assert (history.parent, history.undone) == ("k2", ("k1",))
    assert read_history(rows[:2]).undone == ()

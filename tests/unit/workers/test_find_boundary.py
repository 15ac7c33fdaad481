"""Whether a call finds its node where it is, or has to be given it back, and what it is told of what stood there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from shared.hub.refs import retired_ref
from shared.journal.append import Claim
from shared.model.roles import Role
from shared.model.rows import CallRow
from tests.factories import make_call_row
from workers.call.context import AgentCall
from workers.call.directory import find_boundary, retired_before
from workers.worktrees.history import read_history
from workers.worktrees.preserve import old_worktree

_CLAIM: dict[str, Any] = dict.fromkeys(Claim.__dataclass_fields__)


def going_on(made: list[CallRow], own: list[CallRow]) -> AgentCall:
    """An executor call at node n that continues what was made there; `own` is what an earlier holder of it wrote."""
    claim = Claim(**{**_CLAIM, "node_id": "n", "run_id": "r", "call_id": "c2", "attempt": 0})
    rows = [make_call_row(seq=10, call_id="c2", event="prepared", node_id="n"), *own]
    role, context = Role("executor", "m", "low", "workspace-write", ""), {"kind": "continue", "call": "c1"}
    node = [row for row in (*made, *own) if row.event == "placed"]
    return AgentCall(claim, None, role, "", None, None, context, rows, node, made, rows)  # type: ignore[arg-type]


def placed(seq: int, call: str, host: str, path: Path, kind: str = "fresh") -> CallRow:
    columns = {"worktree_kind": kind, "worktree_path": str(path), "allocation": seq}
    return make_call_row(seq=seq, call_id=call, event="placed", node_id="n", host=host, **columns)


@pytest.mark.req("RULE6", "RULE12")
def test_a_node_is_given_back_on_another_host_and_where_its_directory_went_with_the_host(tmp_path: Path) -> None:
    there, gone = placed(1, "c1", "h1", tmp_path), placed(1, "c1", "h1", tmp_path / "gone")
    assert find_boundary(going_on([there], []), "h1", tmp_path) is None
    (tmp_path / "new").mkdir()
    for made, host, state in (([there], "h2", tmp_path), ([gone], "h1", tmp_path), ([there], "h1", tmp_path / "new")):
        found = find_boundary(going_on(made, []), host, state)
        assert found is not None and found.because == {"moved_from": "h1"}


@pytest.mark.req("R35")
def test_what_an_earlier_holder_of_the_call_made_is_not_where_its_node_stands(tmp_path: Path) -> None:
    made, own = [placed(1, "c1", "h1", tmp_path)], [placed(11, "c2", "h2", tmp_path, "restore")]
    assert find_boundary(going_on(made, own), "h2", tmp_path) is not None


@pytest.mark.req("RULE16", "W06")
def test_a_fork_is_told_of_the_worktrees_that_the_other_run_retired_and_of_no_others(tmp_path: Path) -> None:
    def copied(seq: int, host: str) -> CallRow:
        row = placed(seq, "c1", "-", tmp_path / str(seq))
        return structs.replace(row, detail={"copied_from": {"run": "r0", "host": host}})

    made = [copied(1, "h1"), copied(2, "h1"), copied(3, "h2"), placed(4, "c1", "h2", tmp_path)]
    told = retired_before(going_on(made, []), read_history(made), "h2")
    assert told == (retired_ref("r", "n", 1), retired_ref("r", "n", 4))


@pytest.mark.req("W05")
def test_a_call_is_not_told_of_a_worktree_that_was_announced_for_it_and_never_made(tmp_path: Path) -> None:
    made, own = [placed(1, "c1", "h1", tmp_path / "1")], [placed(11, "c2", "h1", tmp_path / "11")]
    told = retired_before(going_on(made, own), read_history([*made, *own]), "h1")
    assert told == (retired_ref("r", "n", 1),)
    withdrawn = make_call_row(seq=6, call_id="c3", event="withdrawn", node_id="n", attempt=0)
    call = going_on([*made, placed(5, "c3", "h1", tmp_path / "5")], [])
    call = replace(call, node_rows=[*call.node_rows, withdrawn])
    assert retired_before(call, read_history(call.node_rows), "h1") == (retired_ref("r", "n", 1),)


@pytest.mark.req("R24", "W05")
def test_the_worktree_before_a_next_one_is_the_newest_that_was_made_and_not_one_that_was_only_announced(
    tmp_path: Path,
) -> None:
    stands, announced = placed(1, "c1", "h1", tmp_path), placed(2, "c2", "h1", tmp_path / "announced")
    assert old_worktree([stands, announced], "c2", 1, "h1") is stands
    assert old_worktree([stands, announced], "c2", 1, "h2") is None
    (tmp_path / "announced").mkdir()
    assert old_worktree([stands, announced], "c2", 1, "h1") is announced
    assert old_worktree([stands, announced], "c2", 0, "h1") is stands

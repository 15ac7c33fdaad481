"""What stands behind a cut, on its path and around it, and what stays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scheduler.resume.prefix import plan_prefix
from shared.model.position import child_path
from shared.model.rows import CallRow, EventRow
from tests.factories import RunRows

A, B = "main/2[a]", "main/2[b]"


def _run(**ends: str) -> RunRows:
    """main:1, then a join at main:2 of two lanes with two positions each, then main:3."""
    made = RunRows()
    made.event("started")
    for path, position in (("main", 1), (A, 1), (B, 1), (A, 2), (B, 2)):
        _call(made, path, position, ends)
    made.event("join_settled", path="main", position=2)
    made.event("log", path="main", position=2)
    _call(made, "main", 3, ends)
    made.event("finished")
    return made


def _call(made: RunRows, path: str, position: int, ends: dict[str, str]) -> None:
    made.call("prepared", path=path, position=position, detail={"input_digest": "d"})
    end = ends.get(f"{path[-2] if '[' in path else 'm'}{position}", "completed")
    if end:
        made.call(end, path=path, position=position)


def _proven(_rows: Sequence[CallRow]) -> None:
    return None


def _left(made: RunRows, path: str, position: int, **unproven: str) -> list[str]:
    def why_not(rows: Sequence[CallRow]) -> str | None:
        return unproven.get(f"{rows[-1].path[-2]}{rows[-1].position}")

    prefix = plan_prefix(made.rows, (path, position), why_not if unproven else _proven)
    names = [row.kind if isinstance(row, EventRow) else f"{row.path}:{row.position}" for row in prefix.rows]
    return list(dict.fromkeys(names))


@pytest.mark.parametrize(
    ("path", "position", "left"),
    [
        ("main", 1, []),
        ("main", 3, ["main:1", f"{A}:1", f"{B}:1", f"{A}:2", f"{B}:2", "join_settled", "log"]),
        (A, 2, ["main:1", f"{A}:1", f"{B}:1", f"{B}:2"]),
        (B, 1, ["main:1", f"{A}:1", f"{A}:2"]),
    ],
)
def test_a_cut_takes_its_path_the_joins_above_it_and_all_behind_them(path: str, position: int, left: list[str]) -> None:
    assert _left(_run(), path, position) == left


@pytest.mark.parametrize("end", ["held", "outcome_unknown", "superseded", ""])
def test_a_call_without_a_usable_end_is_a_cut_of_its_own(end: str) -> None:
    assert _left(_run(a1=end), "main", 3) == ["main:1", f"{B}:1", f"{B}:2"]


def test_an_effect_that_is_not_proven_is_a_cut_and_says_why() -> None:
    assert _left(_run(), "main", 3, b2="gone") == ["main:1", f"{A}:1", f"{B}:1", f"{A}:2"]
    prefix = plan_prefix(_run().rows, ("main", 3), lambda rows: "gone" if rows[-1].path == B else None)
    assert [(cut.place, cut.why) for cut in prefix.cuts[1:]] == [((B, 1), "gone")]


@pytest.mark.req("R03")
def test_of_many_cuts_on_one_path_and_below_one_join_the_first_counts():
    rows = RunRows()
    for position in (1, 2):
        rows.call("prepared", position=position)
        rows.call("completed", position=position)
    for lane in "abc":
        for position in (1, 2):
            rows.call("prepared", path=child_path("main", 3, lane), position=position)
            rows.call("completed", path=child_path("main", 3, lane), position=position)
    rows.event("join_settled", {"digest": "d"}, path="main", position=3)

    def why_not(call):
        return "gone" if (call[0].path, call[0].position) in {(child_path("main", 3, "a"), 2), ("main", 2)} else None

    prefix = plan_prefix(rows.rows, (child_path("main", 3, "b"), 1), why_not)
    assert [cut.place for cut in prefix.cuts] == [(child_path("main", 3, "b"), 1), ("main", 2)]
    assert {(row.path, row.position) for row in prefix.rows} == {("main", 1)}
    prefix = plan_prefix(rows.rows, (child_path("main", 3, "b"), 1), lambda call: None)
    lanes = {(child_path("main", 3, lane), position) for lane in "ac" for position in (1, 2)}
    assert {(row.path, row.position) for row in prefix.rows} == {("main", 1), ("main", 2), *lanes}

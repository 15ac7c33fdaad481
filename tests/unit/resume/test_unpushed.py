"""A held call whose work its host alone has: what a resume decides on, and what it takes along where it gives way."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.resume.decisions import Failed, GoOn, Live
from scheduler.resume.held import decide_held
from scheduler.resume.history import Recorded
from scheduler.resume.suffix import Doomed, held_trees
from scheduler.resume.walk import judge_held
from shared.model.boundary import HeldTree
from shared.model.proof import HeldState
from shared.model.rows import CallRow
from shared.model.unpushed import Unpushed, tree_at_hold
from tests.factories import make_call_row

PLACE = ("main", 1)
REFUSED = {"reason": "worktree_failed", "pending_tree_error": "the hub refuses it"}
KEPT = Unpushed("t", "k", "refs/keeping")


def rows_held(**held: Any) -> list[CallRow]:
    place = {"path": "main", "position": 1, "node_id": "n"}
    return [
        make_call_row(seq=1, event="prepared", **place),
        make_call_row(seq=2, event="placed", worktree_kind="fresh", **place),
        make_call_row(seq=3, event="held", input_state="delivered", **place, **held),
    ]


def decide(**held: Any) -> GoOn | Live:
    rows = rows_held(**held)
    return decide_held(rows, rows[-1], PLACE)


@pytest.mark.req("R41", "R42")
@pytest.mark.parametrize(("result", "answered"), [("a digest", True), (None, False)])
def test_it_goes_on_in_place_and_where_its_answer_is_kept_needs_no_turn(result: str | None, answered: bool) -> None:
    kept = Unpushed(KEPT.tree, KEPT.commit, KEPT.ref, result)
    decision = decide(detail={**REFUSED, **kept.member()})
    assert isinstance(decision, GoOn) and (decision.input_state, decision.reason) == ("delivered", "worktree_failed")
    assert (decision.attempt, decision.answered) == (1, answered)
    assert Unpushed.read(decision.rows[-1]) == kept and tree_at_hold(decision.rows[-1]) == "t"
    gone = judge_held(decision, HeldState("t", False, "kept_work_gone", "its host lost it"))
    assert isinstance(gone, Live) and gone.because is not None and gone.because.condition == "g"


@pytest.mark.req("R42", "R48")
def test_a_row_that_tells_of_no_kept_work_is_judged_as_ever() -> None:
    again = decide(detail=REFUSED)
    assert isinstance(again, Live) and again.because is not None
    assert again.because.sentence.endswith("its files are not known to be its own: the hub refuses it")
    on_hub = decide(detail={"reason": "quota"}, held_tree="p")
    assert isinstance(on_hub, GoOn) and not on_hub.answered


@pytest.mark.req("R25")
def test_what_gives_way_takes_its_tree_along_and_says_that_the_hub_has_not_got_it() -> None:
    pushed, refused = rows_held(held_tree="p"), rows_held(detail={**REFUSED, **KEPT.member()})
    because = Failed("g", PLACE, "its files have changed")
    (one, other) = held_trees([Doomed(Recorded(PLACE, rows), because) for rows in (pushed, refused)])["n"]
    assert (one.tree, one.unpushed, other.tree, other.unpushed) == ("p", False, "t", True)
    assert one.to_json() == {"call": one.call, "tree": "p"} and HeldTree.read(other.to_json()) == other

"""What a position does, given what was recorded at its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.flow.digest import input_digest
from scheduler.resume.decisions import Attach, Failed, GoOn, Live, Mismatch, Replay, Stays
from scheduler.resume.differing import differing
from scheduler.resume.effects import find_hold
from scheduler.resume.history import History
from scheduler.resume.walk import judge, judge_held, walk
from shared.base.canonical import digest_text
from shared.base.errors import StoreError
from shared.model.position import child_path
from shared.model.proof import HeldState, Verdict
from tests.factories import make_call_row, make_event_row

PLACE = ("main", 1)


def call_row(seq, event, path="main", position=1, **given):
    return make_call_row(seq=seq, event=event, path=path, position=position, **given)


def event_row(seq, kind, path=None, position=None, data=None):
    return make_event_row(seq=seq, kind=kind, path=path, position=position, data=data or {})


def asks(prompt="p", **members):
    detail = {"prompt": prompt, "node": None, **members}
    return {**detail, "input_digest": input_digest("agent", detail, ""), "label": "for people"}


def ended(event="completed", detail=None, **values):
    return [call_row(1, "prepared", detail=detail or asks(), **values), call_row(2, event, **values)]


def test_a_position_never_opened_runs_live():
    assert walk([], PLACE, "agent", asks()) == Live()


@pytest.mark.req("R15")
@pytest.mark.parametrize("event", ["completed", "null_model", "refused"])
def test_an_ended_call_with_the_same_input_replays(event):
    rows = ended(event)
    assert walk(rows, PLACE, "agent", asks()) == Replay(rows)


@pytest.mark.req("R15", "R16")
@pytest.mark.parametrize("broken", [None, Failed("a", PLACE, "an earlier one does not replay")])
def test_an_outcome_that_is_unknown_stays_so_whatever_else_holds(broken):
    rows = ended("outcome_unknown")
    assert walk(rows, PLACE, "agent", asks(), broken=broken) == Stays(rows, broken)


@pytest.mark.req("R04", "R05", "R06", "R13")
@pytest.mark.parametrize("condition", "abf")
@pytest.mark.parametrize("event", ["completed", "held", "refused", "open"])
def test_nothing_recorded_on_a_broken_path_replays_or_is_waited_for(condition, event):
    rows = ended(event)[: 1 if event == "open" else 2]
    broken = Failed(condition, ("main", 1), "something before it does not replay")
    assert walk(rows, PLACE, "agent", asks(), broken=broken) == Live(1, 1, broken)


@pytest.mark.req("R05")
def test_a_position_never_opened_fails_nothing_also_on_a_broken_path():
    assert walk([], PLACE, "agent", asks(), broken=Failed("a", PLACE, "x")) == Live()


@pytest.mark.req("R07")
def test_a_position_of_which_only_the_input_fails_runs_live_where_a_resume_was_asked_for():
    decision = walk(ended(), PLACE, "agent", asks("q"), asked=True)
    assert isinstance(decision, Live) and decision.attempt == 1 and decision.because.condition == "c"
    assert decision.because.facts == {"prompt": ["p", "q"]}


@pytest.mark.req("R07")
def test_the_digest_of_an_older_version_is_the_same_input():
    rows = ended(detail={**asks(), "input_digest": "older"})
    assert walk(rows, PLACE, "agent", asks(), also=lambda: "older") == Replay(rows)
    assert isinstance(walk(rows, PLACE, "agent", asks(), also=lambda: "other"), Mismatch)


@pytest.mark.req("R10", "R11")
def test_facts_from_outside_that_changed_fail_d_and_name_what_changed():
    rows = ended(detail={**asks(), "input_snapshot": {"criteria": "1", "plan": "p"}})
    assert walk(rows, PLACE, "agent", {**asks(), "input_snapshot": {"criteria": "1", "plan": "p"}}) == Replay(rows)
    changed = walk(rows, PLACE, "agent", {**asks(), "input_snapshot": {"criteria": "2", "plan": "p"}})
    assert changed.because == Failed(
        "d",
        PLACE,
        "outside the run criteria has changed since it was recorded",
        ("criteria",),
        {"criteria": ["1", "2"]},
    )


@pytest.mark.req("R12", "O03")
def test_an_effect_that_is_not_there_any_more_fails_e_in_the_prover_s_words():
    replay = Replay(ended())
    assert judge(replay, Verdict(True)) is replay
    gone = judge(replay, Verdict(False, "foreign_commit", "HEAD is 12, recorded is 34", {"head": "12"}))
    assert gone == Live(1, 1, Failed("e", PLACE, "HEAD is 12, recorded is 34", (), gone.because.facts))
    assert gone.because.facts == {"head": "12", "reason": "foreign_commit"}


def held(**values):
    begun = [call_row(1, "prepared", detail=asks()), call_row(2, "placed", node_id="n", worktree_kind="fresh")]
    return [*begun, call_row(3, "held", detail={"reason": "pause"}, **values)]


@pytest.mark.req("R14", "R40", "R41")
@pytest.mark.parametrize("state", ["delivered", "not_delivered"])
def test_a_held_call_never_replays_and_goes_on_in_place_as_its_input_stands(state):
    rows = held(held_tree="t", input_state=state)
    assert walk(rows, PLACE, "agent", asks()) == GoOn(rows, state, "pause", 1)


@pytest.mark.req("R41", "R48")
def test_a_held_call_whose_worktree_is_not_as_it_left_it_runs_again_and_says_so():
    go_on = walk(held(held_tree="t"), PLACE, "agent", asks())
    assert judge_held(go_on, HeldState("t", True)) is go_on
    again = judge_held(go_on, HeldState("u", False, "held_snapshot_moved", "its files are u, held were t"))
    assert (again.attempt, again.ended_attempts, again.because.condition) == (1, 1, "g")
    assert again.because.sentence == "it was held (pause) and cannot go on in place: its files are u, held were t"


@pytest.mark.req("R42", "R48")
def test_a_hold_without_a_snapshot_has_nothing_to_be_compared_with():
    again = walk(held(), PLACE, "agent", asks())
    assert isinstance(again, Live) and again.because.condition == "g"
    unplaced = [call_row(1, "prepared", detail=asks()), call_row(2, "held", detail={"reason": "pause"})]
    assert walk(unplaced, PLACE, "agent", asks()) == GoOn(unplaced, "not_delivered", "pause", 1)


@pytest.mark.req("R40", "R47")
def test_a_hold_that_the_engine_wrote_itself_stands_while_its_node_holds():
    rows = [call_row(1, "held", detail={**asks(), "reason": "recovery_hold"})]
    assert walk(rows, PLACE, "agent", asks(), holding=True) == Stays(rows)
    assert walk(rows, PLACE, "agent", asks()).because.condition == "g"


def test_an_open_call_with_the_same_input_is_waited_for():
    rows = [call_row(1, "prepared", detail=asks()), call_row(2, "turn_requested"), call_row(3, "turn_started")]
    assert walk(rows, PLACE, "agent", asks()) == Attach(rows)


def test_a_call_that_was_reopened_is_open_again():
    rows = [*ended("held"), call_row(3, "turn_requested")]
    assert walk(rows, PLACE, "agent", asks()) == Attach(rows)


@pytest.mark.req("R07")
def test_another_input_at_a_recorded_position_is_a_mismatch_that_says_what_differs():
    decision = walk(ended(), PLACE, "agent", asks("q", node="a"))
    assert isinstance(decision, Mismatch)
    assert decision.differs == ("node", "prompt")
    assert decision.sentence == "at main:1 node, prompt are not what was recorded"


def test_a_mismatch_of_kind_and_of_joins_before_it_are_told_apart():
    assert "asks for commit, recorded is agent" in walk(ended(), PLACE, "commit", asks("q")).sentence
    other_joins = {**asks(), "input_digest": "0"}
    assert walk(ended(), PLACE, "agent", other_joins).differs == ("joins",)


def test_an_open_call_with_another_input_is_a_mismatch_too():
    assert isinstance(walk([call_row(1, "prepared", detail=asks())], PLACE, "agent", asks("q")), Mismatch)


@pytest.mark.req("K07")
def test_an_attempt_that_another_one_replaces_runs_again_under_its_own_request_id():
    assert walk(ended("superseded"), PLACE, "agent", asks()) == Live(1, 1, lost=True)
    held_then_superseded = [*ended("held"), call_row(3, "superseded")]
    assert walk(held_then_superseded, PLACE, "agent", asks()) == Live(1, 1, lost=True)


@pytest.mark.req("R21", "O05")
def test_what_a_resume_took_back_runs_again_for_the_reason_it_gave_and_counts_once():
    because = Failed("e", ("main/2[a:b]", 3), "its tree is gone", (), {"tree": "t"})
    completed_then_superseded = [*ended(), call_row(3, "superseded", detail={"lineage": 1, **because.to_json()})]
    assert walk(completed_then_superseded, PLACE, "agent", asks("other")) == Live(1, 1, because)


@pytest.mark.req("O05", "K07")
def test_going_on_in_place_and_recovery_are_the_same_request():
    in_place = [*ended("held"), call_row(3, "hold_cleared", attempt=1), call_row(4, "completed", attempt=1)]
    broken = Failed("a", PLACE, "x")
    assert walk(in_place, PLACE, "agent", asks(), broken=broken) == Live(2, 1, broken)


@pytest.mark.req("R03", "R04")
def test_a_result_is_found_at_its_own_place_only():
    history = History(ended())
    assert history.take_call(("main", 2)) == ()
    assert len(history.take_call(PLACE)) == 2
    assert history.take_call(PLACE) == ()


def test_a_history_knows_joins_by_the_paths_under_them_also_when_they_did_not_settle():
    inner = child_path(child_path("main", 2, "a/b"), 1, "x")
    history = History([call_row(1, "prepared", path=inner), event_row(2, "join_settled", "main", 5, {"digest": "d"})])
    assert history.has_join(("main", 2)) and history.has_join((child_path("main", 2, "a/b"), 1))
    assert history.take_join(("main", 5)).data == {"digest": "d"}
    history.take_call((inner, 1))
    assert not history.has_join(("main", 2))
    assert not history.has_join(("main", 5)) and not history.has_join(("main", 1))


def test_a_join_does_not_stand_when_something_under_or_before_it_came_later():
    lane = child_path("main", 2, "a")
    rows = [call_row(1, "prepared", path=lane), event_row(2, "join_settled", "main", 2, {"digest": "d"})]
    assert History([*rows, call_row(3, "superseded", path=lane)]).take_join(("main", 2)) is None
    assert History(rows).take_join(("main", 2), newest_seq=3) is None
    assert History(rows).take_join(("main", 2), newest_seq=1).data == {"digest": "d"}


@pytest.mark.req("R20")
def test_what_stands_behind_a_position_leaves_with_the_paths_opened_there_and_no_sibling():
    lane = child_path("main", 2, "a")
    history = History(
        [
            call_row(1, "completed", position=1), call_row(2, "completed", path=lane),
            call_row(3, "completed", path=child_path(lane, 2, "x")), event_row(4, "log", "main", 1),
            event_row(5, "log", "main", 0), call_row(6, "completed", position=3),
            call_row(7, "completed", path=child_path("main", 1, "b")),
        ]
    )  # fmt: skip
    behind = history.take_behind("main", 1)
    assert [one.place for one in behind] == [("main", 3), (lane, 1), (child_path(lane, 2, "x"), 1)]
    assert history.places_left() == [("main", 1), (child_path("main", 1, "b"), 1)]
    assert not history.take_note("log", ("main", 1)) and history.take_note("log", ("main", 0))


def test_what_was_taken_back_is_not_left_for_the_script_to_come_to():
    history = History([*ended("superseded"), call_row(3, "withdrawn", position=2)])
    assert history.places_left() == [] and not history.has_call(PLACE)


@pytest.mark.req("W09", "W10")
def test_a_call_whose_restored_worktree_changed_runs_again_though_its_outcome_was_said_to_be_unknown():
    rows = ended("outcome_unknown")
    assert isinstance(walk(rows, PLACE, "agent", asks()), Stays)
    rows[-1] = replace(rows[-1], detail={"reason": "restore_snapshot_mismatch"})
    decision = walk(rows, PLACE, "agent", asks())
    assert isinstance(decision, Live) and decision.because is not None and decision.because.condition == "g"
    assert decision.attempt == 1 and History(rows).unknown_calls() == []


@pytest.mark.req("RULE42")
def test_a_row_of_a_kind_that_is_not_known_is_an_error_and_never_skipped():
    with pytest.raises(StoreError, match="row 7 has the kind 'from_the_future'"):
        History([call_row(7, "from_the_future")])


def test_notes_are_counted_off_so_that_a_replay_says_nothing_twice():
    history = History([event_row(1, "phase", "main", 0), event_row(2, "log", "main", 0)])
    assert [history.take_note("log", ("main", 0)) for _ in range(2)] == [True, False]
    assert history.take_note("phase", ("main", 0)) and not history.take_note("phase", ("main", 0))


def test_the_lineage_is_the_number_of_earlier_processes():
    assert History([]).lineage == 0
    assert History([event_row(1, "started"), event_row(2, "started")]).lineage == 2


words = st.sampled_from(["completed", "null_model", "refused", "outcome_unknown", "held", "open", "superseded"])
positions = st.dictionaries(
    st.tuples(st.sampled_from(["main", "main/1[a]", "main/1[b]"]), st.integers(1, 5)),
    st.tuples(words, st.sampled_from("pq")),
    max_size=12,
)


@pytest.mark.req("R19")
@given(recorded=positions, data=st.data())
def test_no_order_of_visiting_and_no_order_of_finishing_changes_a_decision(recorded, data):
    """Each position's decision depends on its own rows alone."""
    rows, places = [], sorted(recorded)
    for place in data.draw(st.permutations(places)):
        word, prompt = recorded[place]
        rows.append(call_row(0, "prepared", *place, detail=asks(prompt)))
        if word != "open":
            rows.append(call_row(0, word, *place))
    history = History(rows)
    for place in data.draw(st.permutations(places)):
        word, prompt = recorded[place]
        decision = walk(history.take_call(place), place, "agent", asks("p"))
        if prompt == "q" and word != "superseded":
            assert isinstance(decision, Mismatch)
        else:
            others = {"open": Attach, "superseded": Live, "held": GoOn, "outcome_unknown": Stays}
            assert type(decision) is others.get(word, Replay)
    assert history.places_left() == []


def held_with(tree="t", attempt=0, seq=2):
    return call_row(seq, "held", attempt=attempt, held_tree=tree, thread_id="t1", detail={"reason": "quota"})


@pytest.mark.req("R40", "R41")
def test_a_held_call_whose_going_on_was_withdrawn_goes_on_in_place_all_the_same():
    placed = call_row(2, "placed", worktree_kind="fresh", node_id="a")
    rows = [
        call_row(1, "prepared", detail=asks()), placed, held_with(seq=3),
        call_row(4, "hold_cleared", attempt=1), call_row(5, "withdrawn", attempt=1),
    ]  # fmt: skip
    decision = walk(rows, PLACE, "agent", asks())
    assert isinstance(decision, GoOn) and (decision.attempt, decision.reason) == (2, "quota")
    moved = judge_held(decision, HeldState("other", False))
    assert isinstance(moved, Live) and (moved.attempt, moved.ended_attempts) == (2, 1)
    assert moved.because is not None and moved.because.condition == "g"
    # Its worktree is asked about as that of any held call.
    hold = find_hold(rows)
    assert hold is not None and hold.held_tree == "t"


@pytest.mark.req("R22", "R25")
@pytest.mark.parametrize("detail", [{"condition": "e", "at": "main:1", "sentence": "gone"}, {"reason": "host_lost"}])
def test_an_attempt_that_was_withdrawn_behind_a_superseded_one_does_not_make_that_one_forgotten(detail):
    rows = [*ended(), call_row(3, "superseded", detail=detail)]
    before = walk(rows, PLACE, "agent", asks())
    rows += [call_row(4, "prepared", attempt=1, detail=asks()), call_row(5, "withdrawn", attempt=1)]
    after = walk(rows, PLACE, "agent", asks())
    assert isinstance(before, Live) and isinstance(after, Live)
    assert (after.because, after.lost) == (before.because, before.lost)
    assert (after.attempt, after.ended_attempts) == (2, 2)


def test_a_position_that_was_withdrawn_before_anybody_had_it_is_as_one_never_opened_under_the_next_number():
    rows = ended("withdrawn")
    decision = walk(rows, PLACE, "agent", asks("another"), broken=Failed("a", PLACE, "one before does not replay"))
    assert isinstance(decision, Live) and (decision.because, decision.lost) == (None, False)
    assert (decision.attempt, decision.ended_attempts) == (1, 1)


@pytest.mark.req("R09", "RULE41")
@pytest.mark.parametrize("now", ["short", "q" * 100, "p" * 100])
def test_a_long_prompt_that_was_not_loaded_differs_as_the_loaded_one_does(now):
    before, after = asks("p" * 100, prompt_digest=digest_text("p" * 100)), asks(now, prompt_digest=digest_text(now))
    lean = {name: value for name, value in before.items() if name != "prompt"}
    assert differing(lean, after) == differing(before, after)

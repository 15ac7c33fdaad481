"""What a position does, given what was recorded at its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.flow.digest import input_digest
from scheduler.resume.history import History
from scheduler.resume.walk import Attach, Live, Mismatch, Replay, walk
from shared.model.position import child_path
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
@pytest.mark.parametrize("event", ["completed", "null_model", "refused", "outcome_unknown", "held"])
def test_an_ended_call_with_the_same_input_replays(event):
    rows = ended(event)
    assert walk(rows, PLACE, "agent", asks()) == Replay(rows)


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
    assert walk(ended("superseded"), PLACE, "agent", asks()) == Live(attempt=1, ended_attempts=1)
    held_then_superseded = [*ended("held"), call_row(3, "superseded")]
    assert walk(held_then_superseded, PLACE, "agent", asks()) == Live(attempt=1, ended_attempts=1)


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
    assert not history.has_join(("main", 5)) and not history.has_join(("main", 1))


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
        if prompt == "q":
            assert isinstance(decision, Mismatch)
        else:
            assert type(decision) is {"open": Attach, "superseded": Live}.get(word, Replay)
    assert history.places_left() == []

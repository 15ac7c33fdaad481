"""How far a call came follows from its rows alone, whatever a crash has taken of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.call_state import RECOVERY_HOLD, Step, read_call_state
from shared.model.events import INTENT_WORDS, TERMINAL_WORDS
from shared.model.operation import turn_operation
from shared.model.origin import Origin
from shared.model.rows import CallRow
from shared.model.settlement import read_settlement
from tests.factories import make_call_row

CALL = make_call_row().call_id
ORIGIN = Origin("h1", "w1", "boot", "home", "g1", 0)
THREAD = [("prepared", {}), ("placed", {}), ("thread_requested", {}), ("thread_started", {"thread_id": "th"})]


def rows(*given_rows: tuple[str, dict[str, Any]]) -> list[CallRow]:
    return [
        make_call_row(**{"seq": seq, "event": event, "call_id": CALL, **members})
        for seq, (event, members) in enumerate(given_rows, 1)
    ]


def asked(ordinal: int, thread: str = "th", **detail: Any) -> tuple[str, dict[str, Any]]:
    operation = turn_operation(CALL, ordinal)
    detail = {"packet": {"kind": "task"}, **ORIGIN.to_json(), **detail}
    return "turn_requested", {"thread_id": thread, "operation": operation, "detail": detail}


def ended(turn: str = "u1", **detail: Any) -> tuple[str, dict[str, Any]]:
    return "turn_ended", {"turn_id": turn, "detail": {"status": "completed", **detail}}


@pytest.mark.req("J07", "R53")
@pytest.mark.parametrize(
    ("given_rows", "step"),
    [
        ([], Step.NOT_ASKED),
        (THREAD[:1], Step.NOT_ASKED),
        (THREAD[:2], Step.NOT_ASKED),
        (THREAD[:3], Step.THREAD_ASKED),
        (THREAD, Step.THREAD_ASKED),
        ([*THREAD, asked(1)], Step.TURN_OPEN),
        ([*THREAD, asked(1), ("turn_started", {"turn_id": "u1"})], Step.TURN_OPEN),
        ([*THREAD, asked(1), ("interrupt_requested", {"detail": {"reason": "cancel"}})], Step.TURN_OPEN),
        ([*THREAD, asked(1), ended()], Step.TURN_ENDED),
        ([*THREAD, asked(1), ("turn_lost", {})], Step.TURN_ENDED),
        ([*THREAD, asked(1), ended(), ("push_requested", {})], Step.TURN_ENDED),
        ([*THREAD, asked(1), ended(), asked(2)], Step.TURN_OPEN),
        ([*THREAD, asked(1), ended(), ("completed", {})], Step.ENDED),
        ([*THREAD, ("outcome_unknown", {}), ("recovery_cleared", {})], Step.THREAD_ASKED),
    ],
)
def test_every_row_says_how_far_the_call_came(given_rows: list[Any], step: Step) -> None:
    assert read_call_state(rows(*given_rows)).step is step


@pytest.mark.req("A24", "K18", "A19", "K27")
def test_a_turn_is_known_by_what_was_sent_and_by_what_was_seen_of_it() -> None:
    state = read_call_state(
        rows(
            *THREAD,
            asked(1),
            ("turn_started", {"turn_id": "u1"}),
            ("user_message_seen", {"turn_id": "u1"}),
            ended(cut=True),
            asked(2, repair=True),
            ("interrupt_requested", {"turn_id": "u2", "detail": {"reason": "deadline"}}),
        )
    )
    first, second = state.turns
    assert (first.ordinal, first.turn_id, first.delivered, first.cut, first.first) == (1, "u1", True, True, True)
    assert (second.ordinal, second.turn_id, second.interrupt, second.open, second.first) == (
        2, "u2", "deadline", True, False,
    )  # fmt: skip
    assert first.origin == ORIGIN and first.packet == {"kind": "task"}
    assert (state.turns_sent, state.repair_used, state.cuts) == (2, True, 1)


@pytest.mark.req("K16", "T24")
def test_a_thread_that_went_with_a_lost_turn_is_made_again_and_its_turn_is_the_first_there() -> None:
    lost = ("turn_lost", {"detail": {"thread_gone": True}})
    before = rows(*THREAD, asked(1), lost)
    assert read_call_state(before).thread is None and read_call_state(before).creations == 1
    again = [("thread_requested", {}), ("thread_started", {"thread_id": "th2"}), asked(2, "th2")]
    state = read_call_state(rows(*THREAD, asked(1), lost, *again))
    assert state.creations == 2 and state.thread is not None and state.thread.thread_id == "th2"
    assert state.turns[1].first and state.turns_sent == 2


def test_a_repair_turn_that_was_not_delivered_is_still_owed() -> None:
    lost = [*THREAD, asked(1), ended(), asked(2, repair=True), ("turn_lost", {})]
    assert not read_call_state(rows(*lost)).repair_used
    assert read_call_state(rows(*lost, asked(3, repair=True))).repair_used


@pytest.mark.req("J46")
def test_a_new_attempt_forgets_the_turns_of_the_one_before() -> None:
    later = [("prepared", {"attempt": 1}), ("placed", {"attempt": 1})]
    state = read_call_state(rows(*THREAD, asked(1), ended(), ("superseded", {}), *later))
    assert state.step is Step.NOT_ASKED and not state.turns and state.terminal is None


_OBSERVED = st.sampled_from(["turn_started", "user_message_seen", "turn_ended", "interrupted", "push_requested"])


@st.composite
def attempts(draw: st.DrawFn) -> list[CallRow]:
    """An attempt as a worker may write it, up to any row."""
    given_rows = list(THREAD)
    for ordinal in range(1, draw(st.integers(0, 4)) + 1):
        given_rows.append(asked(ordinal))
        given_rows += [(word, {"turn_id": f"u{ordinal}"}) for word in draw(st.lists(_OBSERVED, max_size=4))]
    if draw(st.booleans()):
        given_rows.append((draw(st.sampled_from(sorted(TERMINAL_WORDS))), {}))
    return rows(*given_rows[: draw(st.integers(0, len(given_rows)))])


@pytest.mark.req("J07", "A24")
@given(attempts(), st.data())
def test_observations_that_a_crash_took_never_make_a_sent_turn_unsent(
    attempt: list[CallRow], data: st.DataObject
) -> None:
    kept_all = INTENT_WORDS | TERMINAL_WORDS
    left = [row for row in attempt if row.event in kept_all or data.draw(st.booleans())]
    whole, rest = read_call_state(attempt), read_call_state(left)
    assert [turn.operation for turn in rest.turns] == [turn.operation for turn in whole.turns]
    assert (rest.turns_sent, rest.creations, rest.terminal) == (whole.turns_sent, whole.creations, whole.terminal)
    # What was not seen is open: never taken for ended.
    for seen, kept in zip(whole.turns, rest.turns, strict=True):
        assert kept.open or not seen.open


@given(attempts())
def test_a_row_more_never_takes_a_turn_back(attempt: list[CallRow]) -> None:
    sent = [read_call_state(attempt[:length]).turns_sent for length in range(len(attempt) + 1)]
    assert sent == sorted(sent)


@pytest.mark.req("R53", "A25")
def test_what_settles_a_call_is_named_in_words() -> None:
    unknown = ("outcome_unknown", {"host": "h1", "detail": {"reason": "thread_busy"}})
    found = read_settlement(rows(*THREAD, asked(1), unknown))
    assert found is not None and found.recover == CALL
    assert found.words == "turn t1 was asked for on host h1 and what came of it is not known (thread_busy)"
    waits = read_settlement(rows(("held", {"detail": {"reason": RECOVERY_HOLD, "unknown_call": "cother"}})))
    assert waits is not None and waits.recover == "cother"
    held = read_settlement(rows(*THREAD, ("held", {"detail": {"reason": "quota"}})))
    assert held is not None and held.recover is None and "resume" in held.words
    assert read_settlement(rows(*THREAD, asked(1))) is None
    assert read_settlement(rows(*THREAD, asked(1), unknown, ("recovery_cleared", {}), ("completed", {}))) is None


@pytest.mark.req("R41", "R43")
def test_a_held_call_that_goes_on_is_open_again_behind_the_turns_it_sent() -> None:
    held = [*THREAD, asked(1), ended(), ("held", {}), ("hold_cleared", {"attempt": 1})]
    state = read_call_state(rows(*held))
    assert state.terminal is None and state.cleared is not None and state.turns_sent == 1
    state = read_call_state(rows(*held, asked(2)))
    assert state.cleared is None and state.turns_sent == 2 and state.thread is not None


@pytest.mark.req("R31", "R34")
def test_a_fork_is_a_creation_like_any_other() -> None:
    state = read_call_state(rows(("prepared", {}), ("placed", {}), ("fork_requested", {})))
    assert (state.step, state.creations, state.thread) == (Step.THREAD_ASKED, 1, None)
    state = read_call_state(rows(("prepared", {}), ("fork_requested", {}), ("fork_started", {"thread_id": "f"})))
    assert state.thread is not None and state.thread.thread_id == "f"

"""A call that a living worker lost leaves no command of its turn behind."""

from __future__ import annotations

import threading

import pytest

from shared.journal.append import OpenCall
from tests.integration.call.desk import OneWorker, prompt
from tests.waiting import wait_until
from workers.appserver.turns import Turns
from workers.call.ended import EndedTurn, recorded_end
from workers.call.finish import Progressed, _clean

pytestmark = pytest.mark.timeout(120)

RUNS_ON = {"out": [{"exec": "sleep 300", "yield_time_ms": 100}]}


def lose_in_its_turn(one: OneWorker, call: OpenCall) -> str:
    """Work on a call until a command of its turn runs on, then lose the claim. The call's thread."""
    turns = one.worker.appserver.connection().turns
    working = threading.Thread(target=one.work, args=(call,))
    working.start()

    def running() -> str | None:
        started = [row.thread_id for row in one.rows(call) if row.event == "thread_started"]
        return started[0] if started and started[0] and turns._list_terminals(started[0]) else None

    thread_id = wait_until(running, 30, "a command that runs on")
    for hand in one.worker.hands.all():
        hand.lose()
    working.join(60)
    assert not working.is_alive()
    return str(thread_id)


def test_the_commands_of_a_turn_whose_claim_was_lost_are_ended(one: OneWorker) -> None:
    thread_id = lose_in_its_turn(one, one.open(prompt(RUNS_ON, {"hang": True})))
    assert not one.worker.appserver.connection().turns._list_terminals(thread_id)


def test_commands_are_ended_before_the_state_is_read_also_where_nobody_opened_the_thread_again(
    one: OneWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = one.open(prompt(RUNS_ON, {"hang": True}))
    with monkeypatch.context() as patched:
        patched.setattr(Turns, "clean_terminals", lambda *_given, **_more: True)
        thread_id = lose_in_its_turn(one, call)
    connection = one.worker.appserver.connection()
    assert connection.turns._list_terminals(thread_id)
    turn_id = next(row.turn_id for row in one.rows(call) if row.event == "turn_started")
    turn = connection.turns.read_full(thread_id, str(turn_id))
    assert turn is not None
    # As a recovery finds it that asks the server which ran the turn.
    found = EndedTurn(1, recorded_end(thread_id, turn), None)
    _clean(Progressed(connection=connection, turns=[found], turns_sent=1))
    assert not connection.turns._list_terminals(thread_id)

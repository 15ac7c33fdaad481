"""Interrupts, with the three holes of the real server."""

from __future__ import annotations

import pytest

from shared.base.errors import AnswerLost, Refused
from tests.contract.hosts import TURN_SECONDS, ContractHost, final
from tests.waiting import wait_until

_HANG = {"out": [{"msg": "working", "phase": "commentary"}], "hang_late": True}


@pytest.mark.req("A17", "K19")
def test_an_interrupt_right_after_the_send_ends_the_turn(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    with turns.cursor(thread.id) as cursor:
        turn_id = turns.start(cursor, host.request(_HANG))
        end = turns.interrupt(cursor)
    assert end is not None and (end.turn_id, end.status) == (turn_id, "interrupted")
    read = host.read(end)
    assert (read.status, read.completed_at is None) == ("interrupted", False)


@pytest.mark.req("K19")
def test_an_interrupt_of_an_ended_turn_sends_nothing_and_gives_its_end(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    with turns.cursor(thread.id) as cursor:
        turns.start(cursor, host.request(final("done")))
        assert cursor.wait(TURN_SECONDS) is not None
        end = turns.interrupt(cursor)
    assert end is not None and end.status == "completed"


@pytest.mark.req("K19", "K24")
def test_a_second_interrupt_gets_no_answer_so_its_deadline_ends_it(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    with connection.turns.cursor(thread.id) as cursor:
        turn_id = connection.turns.start(cursor, host.request(_HANG))
        assert connection.turns.interrupt(cursor) is not None
        params = {"threadId": thread.id, "turnId": turn_id}
        with pytest.raises(AnswerLost):
            connection.request("turn/interrupt", params, timeout_seconds=0.5)
    assert host.run(thread, final("on")).status == "completed"


def test_an_interrupt_of_another_turn_s_id_is_refused(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, host.request(_HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        params = {"threadId": thread.id, "turnId": "01a22d4c-16ab-79f2-8ef1-000000000000"}
        with pytest.raises(Refused, match="expected active turn id"):
            connection.request("turn/interrupt", params)
        assert cursor.ended is None
        connection.turns.interrupt(cursor)


@pytest.mark.req("K19", "K20", "RULE15")
def test_an_interrupt_leaves_the_command_running_until_it_is_cleaned(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    with turns.cursor(thread.id) as cursor:
        turns.start(cursor, host.request({"out": [{"exec": "sleep 300"}]}, final("never")))
        wait_until(lambda: cursor.progress and cursor.progress.command, TURN_SECONDS, "the command to start")
        end = turns.interrupt(cursor)
    assert end is not None and end.status == "interrupted"
    assert turns._list_terminals(thread.id)
    assert turns.clean_terminals(thread.id)
    assert not turns._list_terminals(thread.id)


@pytest.mark.req("K20", "RULE15")
def test_a_completed_turn_may_leave_a_command_and_cleaning_ends_it(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    end = host.run(thread, {"out": [{"exec": "sleep 300", "yield_time_ms": 250}]}, final("done"))
    assert end.status == "completed"
    assert turns._list_terminals(thread.id)
    assert turns.clean_terminals(thread.id)


def test_a_turn_sent_right_after_an_interrupt_is_a_new_one(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    with turns.cursor(thread.id) as cursor:
        first = turns.start(cursor, host.request(_HANG))
        assert turns.interrupt(cursor) is not None
    end = host.run(thread, final("new"))
    assert end.turn_id != first and end.status == "completed"

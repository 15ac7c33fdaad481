"""Interrupts, with the three holes of the real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from shared.base.errors import AnswerLost, Refused
from tests.contract.hosts import HANG, TURN_SECONDS, ContractHost, final
from tests.waiting import wait_until

_NO_TURN = "01a22d4c-16ab-79f2-8ef1-000000000000"


@pytest.mark.req("A17", "K19", "K40")
def test_an_interrupt_right_after_the_send_ends_the_turn(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    with turns.cursor(thread.id) as cursor:
        turn_id = turns.start(cursor, host.request(HANG))
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


@pytest.mark.req("K19")
def test_an_interrupt_in_the_moment_after_the_reply_is_refused_and_the_turn_runs_on(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    with connection.turns.cursor(thread.id) as cursor:
        turn_id = connection.turns.start(cursor, host.request(HANG))
        asked = {"threadId": thread.id, "turnId": turn_id}
        # On a slow day the turn has begun by now, and the first one is taken.
        with suppress(Refused):
            connection.request("turn/interrupt", asked)
            asked = {}
        if asked:
            assert cursor.wait_delivered(TURN_SECONDS) and cursor.ended is None
            connection.request("turn/interrupt", asked)
        end = cursor.wait(TURN_SECONDS)
    assert end is not None and end.status == "interrupted"


@pytest.mark.req("K19")
def test_an_interrupt_without_a_turn_s_id_stops_whatever_runs_and_is_answered_when_nothing_does(
    host: ContractHost,
) -> None:
    thread, connection = host.thread(), host.connection
    anything = {"threadId": thread.id, "turnId": ""}
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, host.request(HANG))
        assert connection.request("turn/interrupt", anything) == {}
        end = cursor.wait(TURN_SECONDS)
    assert end is not None and end.status == "interrupted"
    assert connection.request("turn/interrupt", anything) == {}
    # So the adapter never sends one for a turn that it cannot name.
    with connection.turns.cursor(thread.id) as cursor, pytest.raises(ValueError, match="whatever runs"):
        connection.turns.interrupt(cursor)


@pytest.mark.req("K19", "K24")
def test_a_second_interrupt_is_answered_at_the_thread_s_next_turn(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    with connection.turns.cursor(thread.id) as cursor:
        turn_id = connection.turns.start(cursor, host.request(HANG))
        assert connection.turns.interrupt(cursor) is not None
    with ThreadPoolExecutor(1) as pool:
        params = {"threadId": thread.id, "turnId": turn_id}
        late = pool.submit(connection.request, "turn/interrupt", params, timeout_seconds=TURN_SECONDS)
        # Whether it has gone out cannot be seen; that it has no answer yet can.
        assert not late.done()
        wait_until(lambda: connection._server.rpc._slots, 5, "the request to be open")
        end = host.run(thread, final("on"))
        assert late.result() == {}
    assert end.turn_id != turn_id and end.status in ("completed", "interrupted")


def test_an_interrupt_of_an_ended_or_unknown_turn_says_which_it_is(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    with pytest.raises(Refused, match="no active turn to interrupt"):
        connection.request("turn/interrupt", {"threadId": thread.id, "turnId": _NO_TURN})
    end = host.run(thread, final("done"))
    with pytest.raises(Refused, match="no active turn to interrupt"):
        connection.request("turn/interrupt", {"threadId": thread.id, "turnId": end.turn_id})
    with connection.turns.cursor(thread.id) as cursor:
        stopped = connection.turns.start(cursor, host.request(HANG))
        assert connection.turns.interrupt(cursor) is not None
    with pytest.raises(Refused, match=f"expected active turn id {_NO_TURN} but found {stopped}"):
        connection.request("turn/interrupt", {"threadId": thread.id, "turnId": _NO_TURN})


@pytest.mark.req("K19", "K24")
def test_a_second_interrupt_gets_no_answer_so_its_deadline_ends_it(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    with connection.turns.cursor(thread.id) as cursor:
        turn_id = connection.turns.start(cursor, host.request(HANG))
        assert connection.turns.interrupt(cursor) is not None
        params = {"threadId": thread.id, "turnId": turn_id}
        with pytest.raises(AnswerLost):
            connection.request("turn/interrupt", params, timeout_seconds=0.5)
    assert host.run(thread, final("on")).status == "completed"


def test_an_interrupt_of_another_turn_s_id_is_refused(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, host.request(HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        params = {"threadId": thread.id, "turnId": _NO_TURN}
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
    # It runs, and it is no item of its turn.
    (terminal,) = turns._list_terminals(thread.id)
    assert "sleep 300" in terminal["command"]
    assert [item["type"] for item in host.read(end).items] == ["userMessage"]
    assert turns.clean_terminals(thread.id)
    assert not turns._list_terminals(thread.id)


@pytest.mark.req("K20", "RULE15")
def test_cleaning_ends_the_commands_of_one_thread_and_of_no_other(host: ContractHost) -> None:
    threads, turns = [host.thread(), host.thread()], host.connection.turns
    for thread in threads:
        host.run(thread, {"out": [{"exec": "sleep 300", "yield_time_ms": 250}]}, final("done"))
    assert turns.clean_terminals(threads[0].id)
    assert turns._list_terminals(threads[1].id)
    assert turns.clean_terminals(threads[1].id)


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
        first = turns.start(cursor, host.request(HANG))
        assert turns.interrupt(cursor) is not None
    end = host.run(thread, final("new"))
    assert end.turn_id != first and end.status == "completed"

"""Turns: what is sent, what comes back in which order, and why nothing can be sent twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.base.errors import Refused, TurnActive
from shared.model.operation import read_marker
from tests.contract.hosts import HANG, TURN_SECONDS, ContractHost, final
from workers.appserver import pick_answer, unwrap_answer
from workers.appserver.turns import plan_turn


@pytest.mark.req("A06", "S12")
def test_the_operation_is_the_client_id_and_the_first_line(host: ContractHost) -> None:
    request = host.request(final("done"))
    end = host.run(host.thread(), operation=request.operation)
    message = host.read(end).items[0]
    assert message["clientId"] == request.operation
    assert read_marker(None, message["content"][0]["text"]) == request.operation


@pytest.mark.req("A09", "T12")
def test_the_end_comes_from_the_events_with_all_items(host: ContractHost) -> None:
    end = host.run(host.thread(), {"out": [{"msg": "look", "phase": "commentary"}, {"exec": "echo hi"}]}, final("done"))
    assert end.status == "completed"
    kinds = [item["type"] for item in end.items]
    assert kinds == ["userMessage", "agentMessage", "commandExecution", "agentMessage"]
    assert [item["type"] for item in host.read(end).items] == kinds


def test_begin_and_delivery_are_seen_before_the_end(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    with turns.cursor(thread.id) as cursor:
        turns.start(cursor, host.request(HANG))
        assert cursor.wait_started(TURN_SECONDS)
        assert cursor.wait_delivered(TURN_SECONDS)
        assert cursor.ended is None
        assert turns.interrupt(cursor) is not None


@pytest.mark.req("K12")
def test_a_second_send_on_a_running_turn_is_refused_and_reaches_no_model(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    second = host.request(final("never"))
    with turns.cursor(thread.id) as cursor:
        first = turns.start(cursor, host.request(HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        # The same cursor stands for a sender that forgot that a turn runs.
        with pytest.raises(TurnActive):
            turns.start(cursor, second)
        end = turns.interrupt(cursor)
    assert end is not None and end.turn_id == first
    assert host.model_asked(second.operation) == 0


@pytest.mark.req("K12")
def test_the_same_operation_with_another_nonce_is_refused_too(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    request = host.request(HANG)
    with turns.cursor(thread.id) as cursor:
        turns.start(cursor, request)
        assert cursor.wait_delivered(TURN_SECONDS)
        with pytest.raises(TurnActive):
            turns.start(cursor, replace(request, nonce="another"))
        turns.interrupt(cursor)


@pytest.mark.req("K13")
def test_without_a_schema_a_second_send_would_steer(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    with connection.turns.cursor(thread.id) as cursor:
        running = connection.turns.start(cursor, host.request(HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        bare = plan_turn(thread.id, host.request(final("steered")))
        del bare["outputSchema"]
        assert connection.request("turn/start", bare)["turn"]["id"] == running
        connection.turns.interrupt(cursor)


@pytest.mark.req("K12", "K13")
def test_the_same_send_twice_steers_so_each_send_has_a_nonce_of_its_own(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    request = host.request(HANG)
    with turns.cursor(thread.id) as cursor:
        running = turns.start(cursor, request)
        assert cursor.wait_delivered(TURN_SECONDS)
        # Neither the client id nor anything else makes the host see a repetition.
        assert turns.start(cursor, request) == running
        assert turns.interrupt(cursor) is not None


@pytest.mark.req("K12")
def test_the_same_operation_after_its_turn_has_ended_is_a_second_turn(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    request = host.request(final("done"))
    first = host.run(thread, operation=request.operation)
    second = host.run(thread, operation=request.operation)
    assert first.turn_id != second.turn_id
    ids = [item["clientId"] for turn in turns.list_full(thread.id) for item in turn.items if "clientId" in item]
    assert ids == [request.operation] * 2


@pytest.mark.req("K13")
def test_a_call_without_a_schema_gets_its_text_back(host: ContractHost) -> None:
    end = host.run(host.thread(), {"out": [{"json": {"answer": "plain words"}}]})
    answer = pick_answer(end.items)
    assert answer is not None and unwrap_answer(answer) == "plain words"


@pytest.mark.req("A08")
def test_a_call_s_own_schema_is_taken(host: ContractHost) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    end = host.run(host.thread(), {"out": [{"json": {"n": 3}}]}, schema={**schema, "additionalProperties": False})
    assert pick_answer(end.items) == '{"n": 3}'


def test_a_turn_follows_another_on_one_thread(host: ContractHost) -> None:
    thread = host.thread()
    answers = [pick_answer(host.run(thread, final(text)).items) for text in ("one", "two", "three")]
    assert answers == ["one", "two", "three"]


def test_an_input_that_is_too_long_is_refused(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    with turns.cursor(thread.id) as cursor, pytest.raises(Refused) as caught:
        turns.start(cursor, host.request(prompt="x" * 1_100_000))
    assert caught.value.facts["data"]["input_error_code"] == "input_too_large"


@pytest.mark.req("T12")
def test_each_thread_hears_its_own_turn(host: ContractHost) -> None:
    turns = host.connection.turns
    threads = [host.thread() for _ in range(3)]
    cursors = [turns.cursor(thread.id) for thread in threads]
    for number, cursor in enumerate(cursors):
        turns.start(cursor, host.request(final(f"answer {number}")))
    ends = [cursor.wait(TURN_SECONDS) for cursor in cursors]
    for cursor in cursors:
        cursor.close()
    assert [pick_answer(end.items) for end in ends if end] == ["answer 0", "answer 1", "answer 2"]

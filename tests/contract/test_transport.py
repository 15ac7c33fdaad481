"""The pipe under load, with long lines and with hooks before a frame."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shared.base.errors import Refused
from tests.contract.hosts import HANG, TURN_SECONDS, ContractHost, final
from workers.appserver import pick_answer


class _LeaseOver(Exception):
    """What a worker's lease check raises."""


@pytest.mark.req("K24")
def test_three_hundred_requests_at_once_are_all_answered(host: ContractHost) -> None:
    thread, threads = host.thread(), host.connection.threads
    with ThreadPoolExecutor(150) as pool:
        read = list(pool.map(lambda _: threads.read(thread.id).id, range(300)))
    assert read == [thread.id] * 300


@pytest.mark.req("K69")
def test_an_answer_of_two_megabytes_arrives_whole(host: ContractHost) -> None:
    end = host.run(host.thread(), {"out": [{"msg": {"repeat": "x", "n": 2_000_000}, "phase": "final_answer"}]})
    assert len(pick_answer(end.items) or "") == 2_000_000


@pytest.mark.req("K69")
def test_a_request_of_five_megabytes_is_read_whole(host: ContractHost) -> None:
    thread = host.thread()
    # A member that nobody knows is passed over, however long it is.
    answer = host.connection.request("thread/read", {"threadId": thread.id, "unknownMember": "x" * 5_000_000})
    assert answer["thread"]["id"] == thread.id


@pytest.mark.req("K69")
def test_a_command_s_output_of_five_megabytes_arrives_and_is_cut(host: ContractHost) -> None:
    end = host.run(host.thread(), {"out": [{"exec": "head -c 5000000 /dev/zero | tr '\\0' x"}]}, final("done"))
    (command,) = (item for item in end.items if item["type"] == "commandExecution")
    assert command["status"] == "completed" and "x" * 1000 in command["aggregatedOutput"]
    assert len(command["aggregatedOutput"]) < 10_000


@pytest.mark.req("K69")
@pytest.mark.parametrize("line", [b'{"method":"no/such","params":{}}', b"no json", b"[1,2]", b'"text"', b""])
def test_a_line_that_is_no_request_is_passed_over_in_silence(own_host: ContractHost, line: bytes) -> None:
    connection = own_host.connection
    child = connection._server._child
    assert child is not None and child.stdin is not None, "it runs"
    os.write(child.stdin.fileno(), line + b"\n")
    assert own_host.run(own_host.thread(), final("on")).status == "completed"
    assert connection.alive


@pytest.mark.req("K69")
def test_a_notification_that_nobody_knows_is_passed_over(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, host.request(HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        for params in ({}, {"threadId": thread.id, "turnId": cursor.turn_id, "item": {"type": "new"}}, {"threadId": 1}):
            connection._server._receive({"method": "no/such", "params": params})
        end = connection.turns.interrupt(cursor)
    assert end is not None and end.status == "interrupted"


@pytest.mark.req("K69")
def test_a_prompt_with_what_utf_8_cannot_say_is_taken(host: ContractHost) -> None:
    end = host.run(host.thread(), prompt='half \ud800 of \x00 one [[steps:[{"out":[{"json":1}]}]]]')
    assert pick_answer(end.items) == "1"


@pytest.mark.req("RULE4")
def test_what_the_hook_raises_keeps_the_frame_here(host: ContractHost) -> None:
    thread, turns = host.thread(), host.connection.turns
    asked: list[str] = []

    def refuse(method: str, params: Mapping[str, Any]) -> None:
        asked.append(method)
        raise _LeaseOver

    request = host.request(final("never"))
    with turns.cursor(thread.id) as cursor:
        with pytest.raises(_LeaseOver):
            turns.start(cursor, request, before_send=refuse)
        end_of_another = turns.start(cursor, host.request(final("sent")))
        end = cursor.wait(30)
    assert asked == ["turn/start"]
    assert end is not None and end.turn_id == end_of_another
    assert host.model_asked(request.operation) == 0


def test_an_unknown_method_is_a_definitive_no(host: ContractHost) -> None:
    with pytest.raises(Refused, match="unknown variant"):
        host.connection.request("no/such", {})

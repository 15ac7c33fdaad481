"""What a turn is sent with."""

from __future__ import annotations

import pytest

from shared.model.operation import turn_operation
from workers.appserver import TurnRequest
from workers.appserver.router import Router
from workers.appserver.rpc import Rpc
from workers.appserver.transport import Transport
from workers.appserver.turns import Turns, plan_turn

_OPERATION = turn_operation("c" + "a" * 24, 2)
_REQUEST = TurnRequest(_OPERATION, "n1", "Do it.\nNow.", "m", "high")


@pytest.mark.req("A05", "A06", "A08", "K12")
def test_every_turn_repeats_pair_operation_and_a_schema_of_its_own() -> None:
    params = plan_turn("t", _REQUEST)
    assert (params["model"], params["effort"]) == ("m", "high")
    assert params["clientUserMessageId"] == _OPERATION
    assert params["input"][0]["text"].split("\n") == [f"crw-flow-op: {_OPERATION}", "Do it.", "Now."]
    assert f"{_OPERATION} n1" in params["outputSchema"]["description"]


@pytest.mark.req("A15")
def test_a_turn_that_names_no_directory_carries_none() -> None:
    assert "cwd" not in plan_turn("t", _REQUEST)
    assert plan_turn("t", TurnRequest(_OPERATION, "n", "x", "m", "high", cwd="/srv"))["cwd"] == "/srv"


@pytest.mark.req("K19")
def test_an_interrupt_is_never_sent_without_a_turn_s_id(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("pipe") / "sent"
    router = Router()
    with open(file, "wb") as out, open(file, "rb") as back:
        turns = Turns(Rpc(Transport(out, back), timeout_seconds=1), router)
        with router.open("t") as cursor, pytest.raises(ValueError, match="without a turn's id"):
            turns.interrupt(cursor)
    assert file.read_bytes() == b""


@pytest.mark.req("T12")
def test_a_thread_has_one_listener_and_strangers_are_passed_over() -> None:
    router = Router()
    with router.open("t") as cursor:
        with pytest.raises(RuntimeError, match="already listened to"):
            router.open("t")
        started = {"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "u"}}}
        router.receive({**started, "params": {"threadId": "child", "turn": {"id": "x"}}})
        router.receive({"method": "thread/started", "params": {"thread": {"id": "t"}}})
        router.receive({"method": "something/new"})
        router.receive(started)
        router.receive({**started, "params": {"threadId": "t", "turn": {"id": "another"}}})
        cursor.bind("u")
        assert cursor.wait_started(0)
    with router.open("t"):
        pass


@pytest.mark.req("K25")
def test_a_turn_id_of_another_thread_is_another_turn() -> None:
    router = Router()
    with router.open("fork") as fork, router.open("source") as source:
        for cursor in (fork, source):
            cursor.bind("u")
        done = {"threadId": "source", "turn": {"id": "u", "status": "completed"}}
        router.receive({"method": "turn/completed", "params": done})
        assert source.ended is not None and fork.ended is None

"""Faults that a real server cannot be made to show: what a call is told, and what was really sent."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from shared.base.errors import AnswerLost, NotSent, Refused
from tests.fakehost.install import FakeHost
from tests.integration.appserver.conftest import MakeService
from workers.appserver import AppServerConnection, Thread, ThreadSettings, TurnRequest, pick_answer

_CALL = "c" + "a" * 24
_TURN_SECONDS = 20.0
_DONE = '[[steps:[{"out":[{"msg":"done","phase":"final_answer"}]}]]]'


def _wanted(tmp_path: Path) -> ThreadSettings:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    return ThreadSettings(str(work), "m", "high", "workspace-write", "do", "crw:r1/c1/1")


def _thread(connection: AppServerConnection, tmp_path: Path) -> Thread:
    return connection.threads.start(_wanted(tmp_path))


def _request(ordinal: int = 1, prompt: str = _DONE) -> TurnRequest:
    return TurnRequest(f"{_CALL}/t{ordinal}", secrets.token_hex(4), prompt, "m", "high")


@pytest.mark.req("K24")
def test_an_overloaded_server_did_not_take_the_turn(fake: FakeHost, make_service: MakeService, tmp_path: Path) -> None:
    fake.write_faults({"method": "turn/start", "do": "overload"})
    connection = make_service().connection()
    thread = _thread(connection, tmp_path)
    with connection.turns.cursor(thread.id) as cursor:
        with pytest.raises(NotSent):
            connection.turns.start(cursor, _request())
        connection.turns.start(cursor, _request())
        end = cursor.wait(_TURN_SECONDS)
    assert end is not None and end.status == "completed"
    assert len(fake.model_requests()) == 1


@pytest.mark.req("K24", "T12")
def test_a_turn_whose_answer_was_lost_is_found_in_its_events(
    fake: FakeHost, make_service: MakeService, tmp_path: Path
) -> None:
    fake.write_faults({"method": "turn/start", "do": "drop"})
    connection = make_service(timeout_seconds=0.5).connection()
    thread = _thread(connection, tmp_path)
    with connection.turns.cursor(thread.id) as cursor:
        turn_id = connection.turns.start(cursor, _request())
        end = cursor.wait(_TURN_SECONDS)
    assert end is not None and end.turn_id == turn_id
    assert pick_answer(end.items) == "done"
    assert len(fake.requests("turn/start")) == 1


@pytest.mark.req("K24")
def test_a_turn_that_nobody_heard_of_stays_ambiguous_and_is_not_sent_again(
    fake: FakeHost, make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.appserver.turns._FIND_LOST_SECONDS", 0.2)
    fake.write_faults({"method": "turn/start", "do": "lose"})
    connection = make_service(timeout_seconds=0.3).connection()
    thread = _thread(connection, tmp_path)
    with connection.turns.cursor(thread.id) as cursor, pytest.raises(AnswerLost):
        connection.turns.start(cursor, _request())
    assert len(fake.requests("turn/start")) == 1
    assert fake.model_requests() == []


@pytest.mark.parametrize("fault", ["die", "die_after"])
def test_a_server_that_dies_over_a_turn_leaves_it_ambiguous(
    fake: FakeHost, make_service: MakeService, tmp_path: Path, fault: str
) -> None:
    began: list[str] = []
    ended: list[tuple[str, str]] = []
    fake.write_faults({"method": "turn/start", "do": fault})
    service = make_service()
    service.watch(lambda started: began.append(started.generation), lambda *end: ended.append(end))
    connection = service.connection()
    thread = _thread(connection, tmp_path)
    with connection.turns.cursor(thread.id) as cursor, pytest.raises(AnswerLost):
        connection.turns.start(cursor, _request())
    assert len(fake.requests("turn/start")) == 1
    assert service.connection().generation != connection.generation
    assert began == [connection.generation, service.connection().generation]
    ((generation, why),) = ended
    assert generation == connection.generation and why.startswith("exit status")


def test_a_server_that_dies_after_its_answer_loses_the_end(
    fake: FakeHost, make_service: MakeService, tmp_path: Path
) -> None:
    fake.write_faults({"method": "turn/start", "do": "die_answered"})
    connection = make_service().connection()
    thread = _thread(connection, tmp_path)
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, _request())
        with pytest.raises(AnswerLost):
            cursor.wait(_TURN_SECONDS)
    assert not connection.alive


def test_a_lost_interrupt_is_believed_by_the_turn_s_end_alone(
    fake: FakeHost, make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.appserver.turns._INTERRUPT_REPLY_SECONDS", 0.2)
    fake.write_faults({"method": "turn/interrupt", "do": "drop"})
    connection = make_service().connection()
    thread = _thread(connection, tmp_path)
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, _request(prompt='[[steps:[{"hang":true}]]]'))
        assert cursor.wait_delivered(_TURN_SECONDS)
        end = connection.turns.interrupt(cursor)
    assert end is not None and end.status == "interrupted"


def test_an_interrupt_that_nobody_took_says_so_in_time(
    fake: FakeHost, make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.appserver.turns._INTERRUPT_REPLY_SECONDS", 0.1)
    fake.write_faults({"method": "turn/interrupt", "do": "lose"})
    connection = make_service().connection()
    thread = _thread(connection, tmp_path)
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, _request(prompt='[[steps:[{"hang":true}]]]'))
        assert cursor.wait_delivered(_TURN_SECONDS)
        assert connection.turns.interrupt(cursor, timeout_seconds=0.5) is None


@pytest.mark.req("K69")
def test_lines_that_are_no_messages_disturb_nothing(fake: FakeHost, make_service: MakeService, tmp_path: Path) -> None:
    fake.write_faults({"method": "turn/start", "do": "garbage"})
    connection = make_service().connection()
    thread = _thread(connection, tmp_path)
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, _request())
        end = cursor.wait(_TURN_SECONDS)
    assert end is not None and end.status == "completed"


def test_a_refusal_is_definitive(fake: FakeHost, make_service: MakeService, tmp_path: Path) -> None:
    fake.write_faults({"method": "thread/start", "do": "refuse", "code": -32600, "message": "no"})
    with pytest.raises(Refused) as caught:
        _thread(make_service().connection(), tmp_path)
    assert caught.value.facts["code"] == -32600


def test_a_server_that_reads_nothing_for_a_while_is_waited_for(
    fake: FakeHost, make_service: MakeService, tmp_path: Path
) -> None:
    fake.write_faults({"method": "thread/read", "do": "deaf", "seconds": 1.0})
    connection = make_service().connection()
    thread = _thread(connection, tmp_path)
    with pytest.raises(AnswerLost):
        connection.request("thread/read", {"threadId": thread.id}, timeout_seconds=0.2)
    # Its input fills up meanwhile; what does not fit in time is not sent, or not known to be.
    with pytest.raises((NotSent, AnswerLost)):
        connection.request("thread/read", {"threadId": thread.id, "x": "y" * (1 << 20)}, timeout_seconds=0.2)

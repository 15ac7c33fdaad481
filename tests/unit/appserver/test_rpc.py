"""One request, three fates: against a peer that the test plays itself."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shared.base.errors import AnswerLost, NotSent, Refused, ThreadBusy, ThreadMissing, TurnActive
from tests.waiting import wait_until
from workers.appserver.rpc import MAX_IN_FLIGHT, Rpc, read_error
from workers.appserver.transport import Transport


class Peer:
    """Both ends of a pair of pipes: the client under test, and the server that the test plays."""

    def __init__(self) -> None:
        self.input, client_out = os.pipe()
        client_in, self.output = os.pipe()
        self.transport = Transport(os.fdopen(client_out, "wb", buffering=0), os.fdopen(client_in, "rb"))
        self.rpc = Rpc(self.transport, timeout_seconds=5.0)
        self._lines = os.fdopen(self.input, "rb")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        self.transport.read_all(self.rpc.receive)
        self.rpc.end("its output ended")

    def take(self) -> dict[str, Any]:
        """The next frame that the client wrote."""
        return dict(json.loads(self._lines.readline()))

    def say(self, data: bytes) -> None:
        """Bytes from the server."""
        os.write(self.output, data)

    def answer(self, number: int, **body: Any) -> None:
        """An answer from the server."""
        self.say(json.dumps({"id": number, **body}).encode() + b"\n")

    def die(self) -> None:
        """The server's pipes close."""
        self._lines.close()
        os.close(self.output)
        self._reader.join(5)


@pytest.fixture
def peer() -> Peer:
    return Peer()


def _ask(peer: Peer, pool: ThreadPoolExecutor, method: str = "thread/read", **options: Any) -> Any:
    return pool.submit(peer.rpc.request, method, {"x": 1}, **options)


def test_answers_find_their_requests_in_any_order(peer: Peer) -> None:
    with ThreadPoolExecutor() as pool:
        first, second = _ask(peer, pool), _ask(peer, pool)
        numbers = [peer.take()["id"], peer.take()["id"]]
        for number in reversed(numbers):
            peer.answer(number, result={"number": number}, unknownMember=True)
        assert sorted(f.result(5)["number"] for f in (first, second)) == sorted(numbers)


@pytest.mark.req("K24")
def test_an_answer_that_stays_out_is_lost_and_a_late_one_harms_nobody(peer: Peer) -> None:
    with ThreadPoolExecutor() as pool:
        asked = _ask(peer, pool, timeout_seconds=0.1)
        number = peer.take()["id"]
        with pytest.raises(AnswerLost):
            asked.result(5)
        peer.answer(number, result={})
        again = _ask(peer, pool)
        peer.answer(peer.take()["id"], result={"ok": 1})
        assert again.result(5) == {"ok": 1}


def test_death_after_the_write_loses_the_answer_and_later_requests_are_not_sent(peer: Peer) -> None:
    with ThreadPoolExecutor() as pool:
        asked = _ask(peer, pool)
        peer.take()
        peer.die()
        with pytest.raises(AnswerLost):
            asked.result(5)
    with pytest.raises(NotSent):
        peer.rpc.request("thread/read", {})


def test_a_closed_input_takes_nothing(peer: Peer) -> None:
    peer._lines.close()
    with pytest.raises(NotSent):
        peer.rpc.request("turn/start", {})


def test_half_a_frame_is_ambiguous_and_ends_the_connection(peer: Peer) -> None:
    with pytest.raises(AnswerLost):
        peer.rpc.request("turn/start", {"text": "x" * (4 << 20)}, timeout_seconds=0.2)
    with pytest.raises(NotSent):
        peer.rpc.request("turn/start", {})


def test_a_server_that_reads_nothing_gets_nothing(peer: Peer) -> None:
    filled = threading.Event()

    def fill() -> None:
        with pytest.raises(AnswerLost):
            peer.rpc.request("a", {"text": "x" * (1 << 20)}, timeout_seconds=1.0)
        filled.set()

    threading.Thread(target=fill, daemon=True).start()
    wait_until(lambda: peer.transport._writing.locked(), 5, "the writer to be stuck")
    with pytest.raises(NotSent):
        peer.rpc.request("b", {}, timeout_seconds=0.1)
    assert filled.wait(5)


@pytest.mark.req("K24")
def test_no_more_than_sixty_four_requests_are_open(peer: Peer) -> None:
    with ThreadPoolExecutor(MAX_IN_FLIGHT + 1) as pool:
        asked = [_ask(peer, pool) for _ in range(MAX_IN_FLIGHT)]
        numbers = [peer.take()["id"] for _ in asked]
        with pytest.raises(NotSent):
            peer.rpc.request("one/more", {}, timeout_seconds=0.1)
        for number in numbers:
            peer.answer(number, result={})
        assert all(future.result(5) == {} for future in asked)


@pytest.mark.req("K69")
def test_what_is_no_message_is_passed_over(peer: Peer) -> None:
    with ThreadPoolExecutor() as pool:
        asked = _ask(peer, pool)
        number = peer.take()["id"]
        peer.say(b"no json\n[1,2]\n" + b"[" * 100_000 + b"\n" + b'{"id": 99999, "result": {}}\n')
        peer.answer(number, result={"ok": 1})
        assert asked.result(5) == {"ok": 1}


def test_hooks_run_right_before_the_frame_and_what_they_raise_keeps_it_here(peer: Peer) -> None:
    def refuse(method: str, params: Any) -> None:
        raise PermissionError(method)

    with pytest.raises(PermissionError):
        peer.rpc.request("turn/start", {}, before_send=refuse)
    with ThreadPoolExecutor() as pool:
        asked = _ask(peer, pool, "thread/read")
        assert peer.take()["method"] == "thread/read"
        peer.answer(2, result={})
        asked.result(5)


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (-32001, "Server overloaded; retry later.", NotSent),
        (-32603, "failed to submit turn input: ActiveTurnOutputSchemaMismatch", TurnActive),
        (-32600, "thread not loaded: 01a2", ThreadMissing),
        (-32600, "no rollout found for thread id 01a2", ThreadMissing),
        (-32600, "thread not found: 01a2", ThreadMissing),
        (-32600, "thread 01a2 already has an active writer", ThreadBusy),
        (-32600, "no active turn to interrupt", Refused),
        (-32000, "something new", Refused),
    ],
)
def test_an_error_is_read_into_the_class_a_caller_decides_by(code: int, text: str, kind: type[Exception]) -> None:
    error = read_error("m", {"code": code, "message": text, "data": {"d": 1}})
    assert type(error) is kind
    assert error.facts == {"code": code, "data": {"d": 1}, "method": "m", "text": text}


def test_time_in_the_queue_counts_towards_the_deadline(peer: Peer) -> None:
    began = time.monotonic()
    with pytest.raises(AnswerLost):
        peer.rpc.request("slow", {}, timeout_seconds=0.2)
    assert time.monotonic() - began < 2

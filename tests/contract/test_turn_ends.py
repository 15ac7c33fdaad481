"""How turns end, and which message is the answer: the bus and the host agree."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.hosts import ContractHost
from workers.appserver import pick_answer

_FINAL, _NOTE = "final_answer", "commentary"


def _said(*messages: tuple[str, str | None]) -> dict[str, Any]:
    return {"out": [{"msg": text, "phase": phase} for text, phase in messages]}


_FORMS = {
    "final": (_said(("A", _FINAL)), "A"),
    "two finals": (_said(("A", _FINAL), ("B", _FINAL)), "B"),
    "no phase": (_said(("A", None)), "A"),
    "many without a phase": (_said(("A", None), ("B", None)), "B"),
    "commentary then final": (_said(("note", _NOTE), ("A", _FINAL)), "A"),
    "final then commentary": (_said(("A", _FINAL), ("note", _NOTE)), "A"),
    "commentary only": (_said(("note", _NOTE)), None),
    "commentary then no phase": (_said(("note", _NOTE), ("A", None)), None),
    "no phase then final": (_said(("A", None), ("B", _FINAL)), "B"),
    "empty final": (_said(("", _FINAL)), ""),
    "nothing": ({"out": []}, None),
    "reasoning only": ({"out": [{"reasoning": "hm"}]}, None),
}


@pytest.mark.req("A10", "A11", "K23", "S10", "K29")
@pytest.mark.parametrize("form", _FORMS)
def test_the_answer_of_a_completed_turn(host: ContractHost, form: str) -> None:
    step, answer = _FORMS[form]
    end = host.run(host.thread(), step)
    assert end.status == "completed"
    assert pick_answer(end.items) == answer
    assert pick_answer(host.read(end).items) == answer


def test_commentary_that_does_not_end_the_turn_goes_on(host: ContractHost) -> None:
    end = host.run(host.thread(), {**_said(("note", _NOTE)), "end_turn": False}, _said(("A", _FINAL)))
    assert pick_answer(end.items) == "A"


_QUOTA = {"error": {"type": "usage_limit_reached", "message": "limit", "resets_at": 1999999999}}
_FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "http 500": ({"http": 500}, "overloaded"),
    "http 429": ({"http": 429}, "overloaded"),
    "usage limit": ({"http": 429, "body": _QUOTA}, "quota"),
    "overloaded": ({"http": 503, "body": {"error": {"code": "server_is_overloaded", "message": "busy"}}}, "overloaded"),
    "http 400": ({"http": 400}, "other"),
    "cut": ({"cut": True}, "other"),
    "context": ({"failed": {"code": "context_length_exceeded", "message": "long"}}, "context"),
    "quota": ({"failed": {"code": "insufficient_quota", "message": "no money"}}, "quota"),
    "rate": ({"failed": {"code": "rate_limit_exceeded", "message": "slow down"}}, "overloaded"),
    "unknown code": ({"failed": {"code": "strange", "message": "odd"}}, "other"),
    "incomplete": ({"incomplete": "max_output_tokens"}, "other"),
}


@pytest.mark.req("K29")
@pytest.mark.parametrize("cause", _FAILURES)
def test_a_failed_turn_has_a_reason_that_comes_from_its_code(host: ContractHost, cause: str) -> None:
    step, reason = _FAILURES[cause]
    end = host.run(host.thread(), step)
    read = host.read(end)
    assert end.status == read.status == "failed"
    assert end.error is not None and read.error is not None
    assert end.error.reason == read.error.reason == reason
    assert end.error.message


def test_a_thread_goes_on_after_a_failed_turn(host: ContractHost) -> None:
    thread = host.thread()
    assert host.run(thread, {"http": 500}).status == "failed"
    assert host.run(thread, _said(("A", _FINAL))).status == "completed"


@pytest.mark.req("C29", "K62")
def test_each_turn_is_charged_its_own_tokens(host: ContractHost) -> None:
    thread = host.thread()
    first = host.run(thread, {"out": [{"exec": "true"}], "usage": {"input": 100, "output": 10}}, _said(("A", _FINAL)))
    second = host.run(thread, {**_said(("B", _FINAL)), "usage": {"input": 50, "cached": 40, "output": 5}})
    assert first.usage is not None and (first.usage.input, first.usage.output) == (111, 17)
    assert second.usage is not None and (second.usage.input, second.usage.cached, second.usage.output) == (50, 40, 5)


@pytest.mark.req("C29", "K62")
def test_a_fork_and_a_resume_charge_no_old_tokens(host: ContractHost) -> None:
    wanted = host.wanted()
    thread = host.connection.threads.start(wanted)
    end = host.run(thread, {**_said(("A", _FINAL)), "usage": {"input": 1000, "output": 100}})
    fork = host.connection.threads.fork(thread.id, end.turn_id, host.wanted())
    forked = host.run(fork, {**_said(("B", _FINAL)), "usage": {"input": 20, "output": 2}})
    host.connection.threads.resume(thread.id, wanted)
    resumed = host.run(thread, {**_said(("C", _FINAL)), "usage": {"input": 30, "output": 3}})
    assert forked.usage is not None and forked.usage.total == 22
    assert resumed.usage is not None and resumed.usage.total == 33

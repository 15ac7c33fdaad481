"""Sends and interrupts, with the real server's silent steer, its schema guard and its holes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.fakehost.turn import RunningTurn
from tests.fakehost.wire import RpcError, invalid

if TYPE_CHECKING:
    from tests.fakehost.host import Host

Params = Mapping[str, Any]
Reply = dict[str, Any] | None


def turn_start(host: Host, params: Params) -> Reply:
    thread = host.store.need_loaded(params["threadId"])
    _check_input(params)
    thread.model = params.get("model") or thread.model
    thread.effort = params.get("effort") or thread.effort
    thread.cwd = params.get("cwd") or thread.cwd
    running = host.running.get(thread.id)
    if running is not None:
        schema = params.get("outputSchema")
        if schema is not None and schema != running.schema:
            raise RpcError(-32603, "failed to submit turn input: ActiveTurnOutputSchemaMismatch")
        # The silent steer: the input joins the running turn.
        running.steered.append(params)
        host.later(lambda: running.user_message(params))
        return {"turn": running.summary()}
    turn = RunningTurn(host, thread, params)
    host.begin(turn)
    return {"turn": turn.summary()}


def turn_steer(host: Host, params: Params) -> Reply:
    thread = host.store.need_loaded(params["threadId"])
    if not params.get("input"):
        raise invalid("input must not be empty")
    running = host.running.get(thread.id)
    if running is None or not running.begun:
        raise invalid("no active turn to steer")
    expected = params.get("expectedTurnId")
    if expected != running.id:
        raise invalid(f"expected active turn id `{expected}` but found `{running.id}`")
    running.steered.append(params)
    host.later(lambda: running.user_message(params))
    return {"turnId": running.id}


def turn_interrupt(host: Host, params: Params) -> Reply:
    thread = host.store.need_loaded(params["threadId"])
    running, asked = host.running.get(thread.id), params.get("turnId")
    if running is None or not running.begun:
        stopped = host.interrupted.get(thread.id)
        if asked == "":
            if running is not None:
                running.stopped_early = True
            return {}
        if stopped is not None and running is None:
            if asked == stopped:
                # The real server answers this one only at the thread's next turn.
                return None
            raise invalid(f"expected active turn id {asked} but found {stopped}")
        raise invalid("no active turn to interrupt")
    if asked not in ("", running.id):
        raise invalid(f"expected active turn id {asked} but found {running.id}")
    running.interrupt()
    return {}


def _check_input(params: Params) -> None:
    longest = max((len(part.get("text", "")) for part in params.get("input") or []), default=0)
    if longest > 1_048_576:
        raise RpcError(-32602, "input too large", {"input_error_code": "input_too_large", "max_chars": 1_048_576})

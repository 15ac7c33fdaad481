"""What a thread and its turns are after their server has gone, in order or by a kill."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from shared.base.errors import AnswerLost
from shared.model.sent_turn import SentTurn
from tests.contract.hosts import HANG, TURN_SECONDS, ContractHost, final
from tests.waiting import wait_until
from workers.appserver import Thread, pick_answer
from workers.reconcile.lookup import look_up

_NOTED = {"out": [{"msg": "look", "phase": "commentary"}, {"exec": "echo kept"}]}
# The one version that ends by the signal itself instead of in order.
_DIES_OF_SIGTERM = ("0.154.0",)


def _hang(host: ContractHost, thread: Thread) -> str:
    """A turn that ran a command, said a word and hangs."""
    turns = host.connection.turns
    with turns.cursor(thread.id) as cursor:
        turn_id = turns.start(cursor, host.request(_NOTED, HANG))
        wait_until(lambda: cursor.progress and cursor.progress.message == "working", TURN_SECONDS, "the turn to hang")
    return turn_id


@pytest.mark.req("A01")
def test_a_thread_outlives_an_orderly_restart(own_host: ContractHost) -> None:
    wanted = own_host.wanted()
    thread = own_host.connection.threads.start(wanted)
    end = own_host.run(thread, final("before"))
    after = own_host.restart()
    unloaded = after.threads.read(thread.id)
    assert (unloaded.status, unloaded.model, unloaded.source) == ("notLoaded", wanted.model, wanted.source)
    assert pick_answer(own_host.read(end).items) == "before"
    resumed = after.threads.resume(thread.id, wanted)
    assert resumed.id == thread.id
    assert pick_answer(own_host.run(resumed, final("after")).items) == "after"


@pytest.mark.req("K21")
@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write"])
def test_a_cold_resume_has_the_settings_it_is_told(own_host: ContractHost, sandbox: str) -> None:
    wanted = own_host.wanted(sandbox=sandbox)
    thread = own_host.connection.threads.start(wanted)
    own_host.run(thread, final("before"))
    resumed = own_host.restart().threads.resume(thread.id, wanted)
    assert (resumed.model, resumed.effort, resumed.cwd) == (wanted.model, wanted.effort, wanted.cwd)


@pytest.mark.req("K17", "RULE5")
def test_a_kill_loses_the_answer_of_whoever_waits_for_the_turn(own_host: ContractHost) -> None:
    connection = own_host.connection
    thread = own_host.thread()
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, own_host.request(HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        own_host.kill()
        with pytest.raises(AnswerLost):
            cursor.wait(TURN_SECONDS)
    assert not connection.alive
    assert own_host.connection.generation != connection.generation


@pytest.mark.req("K17", "S30")
def test_a_turn_cut_by_a_kill_is_interrupted_without_a_time_and_keeps_what_had_completed(
    own_host: ContractHost,
) -> None:
    wanted = own_host.wanted()
    thread = own_host.connection.threads.start(wanted)
    done = own_host.run(thread, final("before"))
    cut_id = _hang(own_host, thread)
    own_host.kill()
    after = own_host.connection
    assert after.threads.read(thread.id).status == "notLoaded"
    after.threads.resume(thread.id, wanted)
    cut, kept = after.turns.list_full(thread.id)
    assert (cut.id, cut.status, cut.completed_at, cut.error) == (cut_id, "interrupted", None, None)
    kinds = [item["type"] for item in cut.items]
    assert kinds == ["userMessage", "agentMessage", "commandExecution", "agentMessage"]
    assert (kept.id, kept.status, pick_answer(kept.items)) == (done.turn_id, "completed", "before")


@pytest.mark.req("K17", "S30")
def test_a_resume_after_a_kill_starts_nothing_and_the_next_turn_is_the_only_one(own_host: ContractHost) -> None:
    wanted = own_host.wanted()
    thread = own_host.connection.threads.start(wanted)
    cut_id = _hang(own_host, thread)
    own_host.kill()
    asked = own_host.model_requests()
    after = own_host.connection
    assert after.threads.resume(thread.id, wanted).status == "idle"
    end = own_host.run(thread, final("on"))
    assert pick_answer(end.items) == "on"
    assert own_host.model_requests() == asked + 1
    (cut,) = (turn for turn in after.turns.list_full(thread.id) if turn.id != end.turn_id)
    assert (cut.id, cut.status, cut.completed_at) == (cut_id, "interrupted", None)


@pytest.mark.req("K18")
@pytest.mark.parametrize("first", [True, False], ids=["first turn", "later turn"])
@pytest.mark.parametrize("begun", [False, True], ids=["after the reply", "after the begin"])
def test_a_kill_right_after_the_send_leaves_no_turn_an_empty_one_or_a_delivered_one(
    own_host: ContractHost, first: bool, begun: bool
) -> None:
    # Allowed: thread or turn absent; the turn without its input; the turn with it. Never a
    # turn with another end, and never one whose input is missing though its model was asked.
    wanted = own_host.wanted()
    thread = own_host.connection.threads.start(wanted)
    if not first:
        own_host.run(thread, final("before"))
    request = own_host.request(HANG)
    turns = own_host.connection.turns
    with turns.cursor(thread.id) as cursor:
        turn_id = turns.start(cursor, request)
        if begun:
            assert cursor.wait_started(TURN_SECONDS)
        own_host.kill()
    after = own_host.connection
    seen = look_up(after, wanted, SentTurn(1, request.operation, thread.id, turn_id=turn_id))
    if seen.turn is not None:
        assert (seen.turn.status, seen.turn.completed_at) == ("interrupted", None)
    if seen.turn is None or not seen.turn.items:
        assert own_host.model_asked(request.operation) == 0
    assert seen.thread is not None or first
    go_on = thread if seen.thread is not None else after.threads.start(wanted)
    assert own_host.run(go_on, final("again")).status == "completed"


@pytest.mark.req("T39")
def test_the_end_of_its_input_interrupts_the_turn_and_says_so_on_disk(own_host: ContractHost) -> None:
    thread = own_host.thread()
    turn_id = _hang(own_host, thread)
    cut = own_host.restart().turns.read_full(thread.id, turn_id)
    assert cut is not None and cut.status == "interrupted" and cut.completed_at is not None


@pytest.mark.req("T39", "K17")
def test_a_term_signal_ends_the_turn_in_order_where_the_version_knows_how(own_host: ContractHost) -> None:
    thread = own_host.thread()
    turn_id = _hang(own_host, thread)
    own_host.kill(signal.SIGTERM)
    cut = own_host.connection.turns.read_full(thread.id, turn_id)
    assert cut is not None and cut.status == "interrupted"
    assert (cut.completed_at is None) == (own_host.name in _DIES_OF_SIGTERM)


@pytest.mark.req("K20")
def test_a_command_dies_with_its_killed_server_and_is_no_item_of_the_turn(own_host: ContractHost) -> None:
    thread, turns = own_host.thread(), own_host.connection.turns
    ticks = Path(thread.cwd) / "ticks"
    with turns.cursor(thread.id) as cursor:
        turn_id = turns.start(
            cursor, own_host.request({"out": [{"exec": "while :; do echo >> ticks; sleep 0.1; done"}]})
        )
        wait_until(ticks.exists, TURN_SECONDS, "the command to run")
        own_host.kill()
    seen: list[int] = []

    def is_still() -> bool:
        seen.append(ticks.stat().st_size)
        return len(seen) > 25 and len(set(seen[-25:])) == 1

    wait_until(is_still, 10, "the command to be gone")
    cut = own_host.connection.turns.read_full(thread.id, turn_id)
    assert cut is not None and [item["type"] for item in cut.items] == ["userMessage"]

"""Forks, and what a thread is after its server has gone."""

from __future__ import annotations

import os
import signal

import pytest

from shared.base.errors import AnswerLost, Refused, ThreadBusy
from tests.contract.hosts import TURN_SECONDS, ContractHost, final
from tests.waiting import wait_until
from workers.appserver import AppServerService, pick_answer

_HANG = {"out": [{"msg": "working", "phase": "commentary"}], "hang_late": True}


@pytest.mark.req("K21", "K25")
def test_a_fork_takes_all_settings_and_repeats_its_source_s_turns(host: ContractHost) -> None:
    thread = host.thread(sandbox="read-only")
    end = host.run(thread, final("source"))
    wanted = host.wanted(sandbox="workspace-write", effort="low")
    fork = host.connection.threads.fork(thread.id, end.turn_id, wanted)
    assert (fork.forked_from, fork.effort, fork.cwd) == (thread.id, "low", wanted.cwd)
    assert host.connection.threads.read(fork.id).source == wanted.source
    copied = host.connection.turns.read_full(fork.id, end.turn_id)
    assert copied is not None and pick_answer(copied.items) == "source"


def test_a_fork_goes_its_own_way(host: ContractHost) -> None:
    thread = host.thread()
    end = host.run(thread, final("source"))
    fork = host.connection.threads.fork(thread.id, end.turn_id, host.wanted())
    forked = host.run(fork, final("forked"))
    assert host.connection.turns.read_full(thread.id, forked.turn_id) is None


def test_a_fork_ends_with_the_turn_it_names(host: ContractHost) -> None:
    thread = host.thread()
    first, second = host.run(thread, final("one")), host.run(thread, final("two"))
    fork = host.connection.threads.fork(thread.id, first.turn_id, host.wanted())
    turns = host.connection.turns
    assert turns.read_full(fork.id, first.turn_id) is not None
    assert turns.read_full(fork.id, second.turn_id) is None


def test_a_fork_at_an_unknown_or_running_turn_is_refused(host: ContractHost) -> None:
    thread, connection = host.thread(), host.connection
    host.run(thread, final("done"))
    with pytest.raises(Refused, match="turn not found"):
        connection.threads.fork(thread.id, "01a22d4c-16ab-79f2-8ef1-000000000000", host.wanted())
    with connection.turns.cursor(thread.id) as cursor:
        running = connection.turns.start(cursor, host.request(_HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        with pytest.raises(Refused, match="in-progress turn"):
            connection.threads.fork(thread.id, running, host.wanted())
        connection.turns.interrupt(cursor)


@pytest.mark.req("A01")
def test_a_thread_outlives_an_orderly_restart(own_host: ContractHost) -> None:
    wanted = own_host.wanted()
    thread = own_host.connection.threads.start(wanted)
    end = own_host.run(thread, final("before"))
    own_host.service.stop()
    own_host.service = AppServerService(own_host.settings, own_host.directory)
    unloaded = own_host.connection.threads.read(thread.id)
    assert (unloaded.status, unloaded.model, unloaded.source) == ("notLoaded", wanted.model, wanted.source)
    assert pick_answer(own_host.read(end).items) == "before"
    resumed = own_host.connection.threads.resume(thread.id, wanted)
    assert resumed.id == thread.id
    assert pick_answer(own_host.run(resumed, final("after")).items) == "after"


@pytest.mark.req("K21")
@pytest.mark.parametrize("sandbox", ["read-only", "workspace-write"])
def test_a_cold_resume_has_the_settings_it_is_told(own_host: ContractHost, sandbox: str) -> None:
    wanted = own_host.wanted(sandbox=sandbox)
    thread = own_host.connection.threads.start(wanted)
    own_host.run(thread, final("before"))
    own_host.service.stop()
    own_host.service = AppServerService(own_host.settings, own_host.directory)
    resumed = own_host.connection.threads.resume(thread.id, wanted)
    assert (resumed.model, resumed.effort, resumed.cwd) == (wanted.model, wanted.effort, wanted.cwd)


@pytest.mark.req("K17")
def test_a_killed_server_loses_the_answer_and_the_next_generation_reads_the_cut_turn(own_host: ContractHost) -> None:
    wanted, connection = own_host.wanted(), own_host.connection
    thread = connection.threads.start(wanted)
    with connection.turns.cursor(thread.id) as cursor:
        turn_id = connection.turns.start(cursor, own_host.request(_HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        os.kill(connection._server.pid, signal.SIGKILL)
        with pytest.raises(AnswerLost):
            cursor.wait(TURN_SECONDS)
    wait_until(lambda: not connection.alive, 5, "the connection to be gone")
    after = own_host.connection
    assert after.generation != connection.generation
    after.threads.resume(thread.id, wanted)
    cut = after.turns.read_full(thread.id, turn_id)
    assert cut is not None and (cut.status, cut.completed_at) == ("interrupted", None)
    assert own_host.run(thread, final("on")).status == "completed"


@pytest.mark.req("K17", "RULE5")
def test_a_second_server_on_the_home_cannot_take_a_loaded_thread(own_host: ContractHost) -> None:
    wanted = own_host.wanted()
    thread = own_host.connection.threads.start(wanted)
    own_host.run(thread, final("mine"))
    second = AppServerService(own_host.settings, own_host.directory)
    try:
        with pytest.raises(ThreadBusy):
            second.connection().threads.resume(thread.id, wanted)
    finally:
        second.stop()


@pytest.mark.req("T39")
def test_stopping_in_order_interrupts_the_turn_and_says_so_on_disk(own_host: ContractHost) -> None:
    wanted, connection = own_host.wanted(), own_host.connection
    thread = connection.threads.start(wanted)
    with connection.turns.cursor(thread.id) as cursor:
        turn_id = connection.turns.start(cursor, own_host.request(_HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        own_host.service.stop()
    assert not connection.alive
    own_host.service = AppServerService(own_host.settings, own_host.directory)
    cut = own_host.connection.turns.read_full(thread.id, turn_id)
    assert cut is not None and cut.status == "interrupted" and cut.completed_at is not None

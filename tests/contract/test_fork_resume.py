"""Forks: what they take along, where they end, and of what they can be made."""

from __future__ import annotations

import pytest

from shared.base.errors import Refused
from tests.contract.hosts import HANG, TURN_SECONDS, ContractHost, final
from workers.appserver import pick_answer


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
        running = connection.turns.start(cursor, host.request(HANG))
        assert cursor.wait_delivered(TURN_SECONDS)
        with pytest.raises(Refused, match="in-progress turn"):
            connection.threads.fork(thread.id, running, host.wanted())
        connection.turns.interrupt(cursor)


@pytest.mark.req("K25")
def test_a_fork_of_a_source_that_nobody_has_loaded_leaves_it_unloaded(own_host: ContractHost) -> None:
    thread = own_host.thread()
    first, second = own_host.run(thread, final("one")), own_host.run(thread, final("two"))
    after = own_host.restart()
    wanted = own_host.wanted()
    fork = after.threads.fork(thread.id, first.turn_id, wanted)
    assert (fork.forked_from, fork.cwd) == (thread.id, wanted.cwd)
    assert after.turns.read_full(fork.id, second.turn_id) is None
    assert after.threads.read(thread.id).status == "notLoaded"
    assert pick_answer(own_host.run(fork, final("forked")).items) == "forked"
    assert [turn.id for turn in after.turns.list_full(thread.id)] == [second.turn_id, first.turn_id]


@pytest.mark.req("K16")
def test_a_fork_before_its_own_first_turn_is_readable_and_listed_nowhere(host: ContractHost) -> None:
    thread = host.thread()
    end = host.run(thread, final("source"))
    fork = host.connection.threads.fork(thread.id, end.turn_id, host.wanted(cwd=thread.cwd))
    listed = host.connection.request("thread/list", {"cwd": thread.cwd, "sortKey": "updated_at"})["data"]
    assert [entry["id"] for entry in listed] == [thread.id]
    host.run(fork, final("forked"))
    listed = host.connection.request("thread/list", {"cwd": thread.cwd, "sortKey": "updated_at"})["data"]
    assert [entry["id"] for entry in listed] == [fork.id, thread.id]

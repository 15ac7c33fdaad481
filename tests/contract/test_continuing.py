"""How a conversation goes on in another directory, under another home, or behind a turn that was cut."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from shared.base.errors import Refused
from tests.contract.hosts import HANG, TURN_SECONDS, ContractHost, final, new_call, prompt_of
from workers.appserver import pick_answer, thread_source, why_gone
from workers.reconcile import find_creations, find_fork


@pytest.mark.req("R34", "K16")
def test_a_fork_whose_answer_nobody_heard_is_found_by_its_mark_its_directory_its_source_and_its_turns(
    host: ContractHost,
) -> None:
    thread = host.thread()
    first, second = host.run(thread, final("one")), host.run(thread, final("two"))
    wanted = host.wanted(source=thread_source("r1", new_call(), 1))
    fork = host.connection.threads.fork(thread.id, first.turn_id, wanted)
    found = find_fork(host.connection, wanted.source, wanted.cwd, thread.id, first.turn_id)
    assert found is not None and found.id == fork.id
    for other in (second.turn_id, "01a22d4c-16ab-79f2-8ef1-000000000000"):
        assert find_fork(host.connection, wanted.source, wanted.cwd, thread.id, other) is None
    assert find_fork(host.connection, wanted.source, thread.cwd, thread.id, first.turn_id) is None
    # Loaded by this server it takes a turn at once, and is no prefix any more.
    again = host.connection.threads.resume(fork.id, wanted)
    assert (again.id, again.cwd) == (fork.id, wanted.cwd)
    assert pick_answer(host.run(again, final("forked")).items) == "forked"
    assert find_fork(host.connection, wanted.source, wanted.cwd, thread.id, first.turn_id) is None


@pytest.mark.req("R44", "K16")
def test_what_a_call_made_is_found_before_and_after_its_first_turn(host: ContractHost) -> None:
    wanted = host.wanted(source=thread_source("r1", new_call(), 1))
    marks = wanted.source.rpartition("/")[0] + "/"
    assert find_creations(host.connection, marks, wanted.cwd) == []
    thread = host.connection.threads.start(wanted)
    (creation,) = find_creations(host.connection, marks, wanted.cwd)
    assert (creation.thread.id, creation.turns) == (thread.id, ())
    end = host.run(thread, final("done"))
    (creation,) = find_creations(host.connection, marks, wanted.cwd)
    assert [turn.id for turn in creation.turns] == [end.turn_id]


@pytest.mark.req("R34")
def test_a_fork_without_a_turn_of_its_own_outlives_its_server_and_may_be_made_again(
    own_host: ContractHost,
) -> None:
    thread = own_host.thread()
    end = own_host.run(thread, final("source"))
    wanted = own_host.wanted()
    fork = own_host.connection.threads.fork(thread.id, end.turn_id, wanted)
    own_host.kill()
    after = own_host.connection
    kept = after.threads.resume(fork.id, wanted)
    assert [turn.id for turn in after.turns.list_full(kept.id)] == [end.turn_id]
    again = after.threads.fork(thread.id, end.turn_id, wanted)
    assert again.id != fork.id and pick_answer(own_host.run(again, final("forked")).items) == "forked"


@pytest.mark.req("A16", "W12")
def test_a_turn_that_names_a_directory_runs_there_and_so_does_the_next_one_that_names_another(
    host: ContractHost,
) -> None:
    shows = {"out": [{"exec": "pwd"}]}
    thread = host.thread(sandbox="read-only")
    host.run(thread, final("began"))
    for _ in range(2):
        directory = host.workspace()
        moved = host.connection.threads.resume(
            thread.id, host.wanted(sandbox="read-only", cwd=directory), any_directory=True
        )
        assert moved.id == thread.id
        end = host.run(thread, shows, final("done"), cwd=str(directory))
        ran = [item["cwd"] for item in end.items if item.get("type") == "commandExecution"]
        assert [os.path.realpath(cwd) for cwd in ran] == [str(directory)]


@pytest.mark.req("R33", "R35")
def test_the_refusals_that_end_a_conversation_are_told_from_all_others(own_host: ContractHost) -> None:
    thread = own_host.thread()
    end = own_host.run(thread, final("source"))
    threads, wanted = own_host.connection.threads, own_host.wanted()
    unknown = "01a22d4c-16ab-79f2-8ef1-000000000000"

    def why(source: str, turn: str) -> str | None:
        with pytest.raises(Refused) as refusal:
            threads.fork(source, turn, wanted)
        return why_gone(refusal.value)

    assert why(thread.id, unknown) == "turn_missing"
    assert why(unknown, end.turn_id) == "thread_missing"
    with pytest.raises(Refused) as refusal:
        threads.start(replace(wanted, sandbox="read-only", source="x"), before_send=_refuse)
    assert why_gone(refusal.value) is None
    threads.archive(thread.id)
    assert why(thread.id, end.turn_id) == "thread_archived"


def _refuse(_method: str, _params: object) -> None:
    raise Refused("the App Server refused thread/start: unknown variant")


@pytest.mark.req("R35", "R36", "K42", "RULE12")
def test_under_another_home_there_is_nothing_to_fork_or_resume_and_a_new_thread_is_told_instead(
    own_host: ContractHost, host: ContractHost
) -> None:
    thread = own_host.thread()
    end = own_host.run(thread, final("what was planned"))
    other, wanted = host.connection.threads, host.wanted()
    with pytest.raises(Refused) as no_fork:
        other.fork(thread.id, end.turn_id, wanted)
    with pytest.raises(Refused) as no_resume:
        other.resume(thread.id, wanted)
    assert why_gone(no_fork.value) == why_gone(no_resume.value) == "thread_missing"
    told = other.start(wanted)
    steps = prompt_of(final("heard"))
    with host.connection.turns.cursor(told.id) as cursor:
        text = f"You answered:\nwhat was planned\n\nWhat is asked now:\n{steps}"
        host.connection.turns.start(cursor, replace(host.request(), prompt=text))
        answer = cursor.wait(TURN_SECONDS)
    assert answer is not None and pick_answer(answer.items) == "heard"


@pytest.mark.req("K17", "R43", "K21")
def test_a_turn_that_a_kill_cut_is_gone_on_with_under_all_of_its_thread_s_settings(own_host: ContractHost) -> None:
    wanted = own_host.wanted(sandbox="read-only", effort="low")
    thread = own_host.connection.threads.start(wanted)
    connection = own_host.connection
    with connection.turns.cursor(thread.id) as cursor:
        cut = connection.turns.start(cursor, replace(own_host.request(HANG), effort="low"))
        assert cursor.wait_delivered(TURN_SECONDS)
    own_host.kill()
    after = own_host.connection
    again = after.threads.resume(thread.id, wanted)
    assert (again.effort, (again.sandbox or {}).get("type"), again.cwd) == ("low", "readOnly", wanted.cwd)
    end = own_host.run(again, final("went on"), effort="low")
    assert pick_answer(end.items) == "went on"
    turns = list(after.turns.list_full(thread.id))
    assert [(turn.id, turn.status) for turn in turns] == [(end.turn_id, "completed"), (cut, "interrupted")]

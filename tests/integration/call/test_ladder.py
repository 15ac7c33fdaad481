"""A conversation goes on by the best rung there is: its thread, a checked fork, or a new thread that is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from shared.journal.append import OpenCall
from shared.model.outcome import Ended, Status
from tests.integration.call.desk import DONE, SCHEMA, OneWorker, prompt
from tests.integration.call.test_boundary import WRITES, built, row_of

pytestmark = pytest.mark.timeout(180)


def rungs(one: OneWorker, call: OpenCall) -> list[tuple[str, str]]:
    rows = [row.detail for row in one.rows(call) if row.event == "conversation"]
    return [(detail["rung"], detail["reason"]) for detail in rows]


def fork_of(one: OneWorker, build: OpenCall, text: str = prompt(DONE), **detail: Any) -> OpenCall:
    """A fix of a suffix: its node is restored, and its thread is an earlier process's."""
    context = one.goes_on(build, how="fork")
    return one.open(text, context=context, boundary=one.boundary(), lineage=1, **detail)


def completed(ended: Ended | None) -> None:
    assert ended is not None and (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"}), ended


def input_texts(one: OneWorker) -> list[str]:
    return [frame["params"]["input"][0]["text"] for frame in one.fake.requests("turn/start")]


@pytest.mark.req("R30", "R31", "R32", "K21", "K25", "A15", "C17")
def test_a_fork_is_asked_for_with_every_setting_and_its_history_is_read_whole(one: OneWorker) -> None:
    build = built(one)
    fix = fork_of(one, build)
    completed(one.work(fix))
    (fork,) = (frame["params"] for frame in one.fake.requests("thread/fork"))
    context, new = fix.prepared.detail["context"], row_of(one, fix, "placed").worktree_path
    assert (fork["threadId"], fork["lastTurnId"], fork["cwd"]) == (context["thread"], context["through_turn"], new)
    assert (fork["model"], fork["config"]["model_reasoning_effort"]) == ("gpt-test", "low")
    assert (fork["sandbox"], fork["approvalPolicy"]) == ("workspace-write", "never")
    assert (fork["ephemeral"], fork["excludeTurns"]) == (False, True) and "developerInstructions" in fork
    started = row_of(one, fix, "fork_started")
    assert started.detail["forked_from"] == context["thread"] and started.thread_id != context["thread"]
    listed = [frame["params"] for frame in one.fake.requests("thread/turns/list")]
    assert {"threadId": started.thread_id, "itemsView": "full"}.items() <= listed[-1].items()
    turns = [frame["params"] for frame in one.fake.requests("turn/start")]
    assert [turn["threadId"] for turn in turns] == [context["thread"], started.thread_id]
    assert all("cwd" not in turn for turn in turns), "only a thread says where an executor works"
    assert rungs(one, fix) == [("fork", "earlier_process")] and one.sent("thread/start") == 1


@pytest.mark.req("R30")
def test_every_continuation_of_a_suffix_forks_and_the_later_ones_into_the_node_s_worktree_as_it_stands(
    one: OneWorker,
) -> None:
    build = built(one)
    first = fork_of(one, build)
    one.work(first)
    second = one.open(prompt(DONE), context=one.goes_on(build, how="fork"), lineage=1)
    completed(one.work(second))
    assert row_of(one, second, "placed").worktree_kind == "continued"
    assert row_of(one, second, "placed").worktree_path == row_of(one, first, "placed").worktree_path
    assert [frame["params"]["threadId"] for frame in one.fake.requests("thread/fork")] == [
        one.goes_on(build)["thread"]
    ] * 2
    third = one.open(prompt(DONE), context=one.goes_on(second), lineage=1)
    completed(one.work(third))
    assert rungs(one, third) == [("same_thread", "same_home")] and one.sent("thread/fork") == 2


@pytest.mark.req("R33")
@pytest.mark.parametrize(
    ("alter", "reason"),
    [({"cwd": "/"}, "fork_refused"), ({"lastTurnId": "first"}, "fork_refused"), ({"model": "other"}, "pair_refused")],
)
def test_a_fork_that_is_not_what_was_asked_for_is_refused(one: OneWorker, alter: Any, reason: str) -> None:
    build = built(one)
    more = one.open(prompt(DONE), context=one.goes_on(build))
    one.work(more)
    if "lastTurnId" in alter:
        alter = {"lastTurnId": one.goes_on(build)["through_turn"]}
    one.fake.write_faults({"method": "thread/fork", "do": "alter", "params": alter})
    ended = one.work(fork_of(one, more))
    assert ended is not None and (ended.status, ended.reason) == (Status.REFUSED, reason)
    archived = [frame["params"]["threadId"] for frame in one.fake.requests("thread/archive")]
    assert archived == ([ended.meta.thread_id] if reason == "fork_refused" else [])
    assert one.sent("turn/start") == 2


@pytest.mark.req("R34")
@pytest.mark.parametrize("fault", ["drop", "die_after", "die"])
def test_a_fork_whose_answer_was_lost_is_found_or_made_again_and_gets_one_turn(one: OneWorker, fault: str) -> None:
    build = built(one)
    one.fake.write_faults({"method": "thread/fork", "do": fault, "once": True})
    fix = fork_of(one, build)
    completed(one.work(fix))
    turns = one.fake.requests("turn/start")
    assert len(turns) == 2 and turns[-1]["params"]["threadId"] == row_of(one, fix, "fork_started").thread_id
    assert one.sent("thread/fork") == (1 if fault == "drop" else 2)
    marks = [frame["params"]["threadSource"] for frame in one.fake.requests("thread/fork")]
    assert len(set(marks)) == len(marks)


@pytest.mark.req("R29", "R34")
@pytest.mark.parametrize("at", ["after:fork_requested", "before:fork_started", "after:fork_started"])
def test_a_death_around_a_fork_leaves_one_conversation_that_goes_on(one: OneWorker, at: str) -> None:
    build = built(one)
    fix = fork_of(one, build)
    one.work_until_death(fix, at)
    one.reincarnate()
    completed(one.work(fix))
    assert one.sent("turn/start") == 2
    assert len({row.worktree_path for row in one.rows(fix) if row.event == "placed"}) == 1


def lose_thread(one: OneWorker, call: OpenCall) -> None:
    """The thread of a call is gone from its home."""
    thread = one.goes_on(call)["thread"]
    one.worker.appserver.connection()._server.stop()
    (one.settings.state_dir / "codex-home" / "sessions" / f"{thread}.json").unlink()


@pytest.mark.req("R35", "R36", "K42")
@pytest.mark.parametrize("how", ["fork", "same thread"])
def test_a_conversation_whose_thread_is_gone_goes_on_in_a_new_one_that_is_told_of_it(one: OneWorker, how: str) -> None:
    build = one.open(prompt(WRITES, DONE, text="Build it."))
    one.work(build)
    lose_thread(one, build)
    again = prompt(DONE, text="Mend it.")
    fix = fork_of(one, build, again) if how == "fork" else one.open(again, context=one.goes_on(build))
    completed(one.work(fix))
    assert rungs(one, fix)[-1] == ("checkpoint", "thread_missing") and len(rungs(one, fix)) == 2
    told = input_texts(one)[-1]
    assert told.index("Build it.") < told.index('{"summary": "done"}') < told.index("What is asked now:")
    assert told.index("What is asked now:") < told.index("Mend it.")
    packet = row_of(one, fix, "checkpoint_started").detail
    assert packet["digest"] and packet["packet"]["kind"] == "checkpoint"
    assert row_of(one, fix, "turn_requested").detail["packet"]["kind"] == "checkpoint"
    third = one.open(prompt(DONE), context=one.goes_on(fix))
    completed(one.work(third))
    assert rungs(one, third) == [("same_thread", "same_home")]


@pytest.mark.req("RULE12", "K42")
def test_a_conversation_of_no_node_goes_on_on_another_host_in_a_thread_that_is_told_of_it(one: OneWorker) -> None:
    first = one.open(prompt(DONE, text="Look at it."), role="reviewer", node=None)
    one.work(first)
    one.move("h2")
    second = one.open(prompt(DONE, text="Look again."), role="reviewer", node=None, context=one.goes_on(first))
    completed(one.work(second))
    assert rungs(one, second) == [("checkpoint", "other_host")]
    told = input_texts(one)[-1]
    assert told.index("Look at it.") < told.index("What is asked now:") < told.index("Look again.")


@pytest.mark.req("R36")
@pytest.mark.parametrize(
    "at", ["after:checkpoint_started", "after:thread_requested", "before:thread_started", "after:turn_requested"]
)
def test_the_first_turn_of_a_retold_thread_carries_its_packet_whatever_died_before_it(one: OneWorker, at: str) -> None:
    build = one.open(prompt(WRITES, DONE, text="Build it."))
    one.work(build)
    lose_thread(one, build)
    fix = fork_of(one, build, prompt(DONE, text="Mend it."))
    one.work_until_death(fix, at)
    one.reincarnate()
    completed(one.work(fix))
    (told,) = input_texts(one)[1:]
    assert told.count("Build it.") == told.count("Mend it.") == 1


@pytest.mark.req("R35")
def test_a_conversation_of_several_calls_is_told_whole_and_each_turn_once(one: OneWorker) -> None:
    first = one.open(prompt(DONE, text="First."), schema=SCHEMA)
    one.work(first)
    wrong = {"out": [{"msg": "no json", "phase": "final_answer"}]}
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [wrong, DONE]}})
    second = one.open("Second. [[script:late]]", context=one.goes_on(first))
    one.work(second)
    lose_thread(one, second)
    third = one.open(prompt(DONE, text="Third."), context=one.goes_on(second))
    completed(one.work(third))
    turns = row_of(one, third, "checkpoint_started").detail["packet"]["turns"]
    assert [turn["answer"] for turn in turns] == ['{"summary": "done"}', "no json", '{"summary": "done"}']
    assert "First." in turns[0]["input"] and "Second." in turns[1]["input"] and "form" in turns[2]["input"]

"""A held call goes on where it stands; what had not reached its thread is asked of the host before it is sent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shared.journal.append import OpenCall
from shared.model.operation import turn_operation
from shared.model.outcome import Status
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_boundary import FAILS, WRITES, row_of
from tests.integration.call.test_ladder import rungs
from workers.appserver import ThreadSettings, TurnRequest, thread_source

pytestmark = pytest.mark.timeout(180)


def held(one: OneWorker, text: str, reason: str) -> OpenCall:
    call = one.open(text)
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, reason), ended
    return call


def packets_of(one: OneWorker, call: OpenCall) -> list[str]:
    return [row.detail["packet"]["kind"] for row in one.rows(call) if row.event == "turn_requested"]


@pytest.mark.req("R41", "R43", "R46", "R47")
def test_a_delivered_call_is_told_to_carry_on_in_its_thread_and_may_be_held_again(one: OneWorker) -> None:
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [WRITES, FAILS, FAILS, DONE]}})
    call = held(one, "Do it. [[script:late]]", "quota")
    again = one.work(one.clear_hold(call))
    assert again is not None and (again.status, again.reason) == (Status.HELD, "quota")
    ended = one.work(one.clear_hold(call))
    assert ended is not None and (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"})
    assert [row.event for row in one.rows(call)].count("held") == 2
    turns = [frame["params"] for frame in one.fake.requests("turn/start")]
    assert len({turn["threadId"] for turn in turns}) == 1 and one.sent("thread/start") == 1
    assert [turn["clientUserMessageId"] for turn in turns] == [turn_operation(call.call_id, k) for k in (1, 2, 3)]
    text = turns[1]["input"][0]["text"]
    assert "quota" in text and "Carry on" in text and "Do it." not in text
    assert turns[1]["outputSchema"]["properties"] == turns[0]["outputSchema"]["properties"]
    asked = [row for row in one.rows(call) if row.event == "turn_requested"]
    assert not any(row.detail["repair"] for row in asked) and not row_of(one, call, "completed").detail["repair_used"]
    assert len({row.worktree_path for row in one.rows(call) if row.event == "placed"}) == 1


@pytest.mark.req("R44")
def test_a_creation_that_was_refused_is_asked_about_and_made_again_under_the_next_ordinal(one: OneWorker) -> None:
    one.fake.write_faults({"method": "thread/start", "do": "refuse", "message": "not now"})
    call = held(one, prompt(DONE), "host_infra_refused")
    before = len(one.fake.requests())
    ended = one.work(one.clear_hold(call))
    assert ended is not None and ended.status is Status.COMPLETED
    asked = [line["method"] for line in one.fake.requests()[before:] if "method" in line]
    assert asked.index("thread/list") < asked.index("thread/start")
    starts = [frame["params"] for frame in one.fake.requests("thread/start")]
    assert [start["threadSource"][-2:] for start in starts] == ["/1", "/2"] and starts[0]["cwd"] == starts[1]["cwd"]
    assert packets_of(one, call) == ["task"]


@pytest.mark.req("R44")
def test_a_refused_creation_whose_thread_has_a_turn_all_the_same_is_unknown(one: OneWorker) -> None:
    one.fake.write_faults({"method": "thread/start", "do": "refuse", "message": "not now"})
    call = held(one, prompt(DONE), "host_infra_refused")
    connection = one.worker.appserver.connection()
    cwd = row_of(one, call, "placed").worktree_path or ""
    source = thread_source(one.run_id, call.call_id, 1)
    thread = connection.threads.start(ThreadSettings(cwd, "gpt-test", "low", "workspace-write", "", source))
    with connection.turns.cursor(thread.id) as cursor:
        connection.turns.start(cursor, TurnRequest("o", "n", prompt(DONE), "gpt-test", "low"))
        assert cursor.wait(20) is not None
    turns = one.sent("turn/start")
    ended = one.work(one.clear_hold(call))
    assert ended is not None and (ended.status, ended.reason) == (Status.OUTCOME_UNKNOWN, "creation_has_turns")
    assert one.sent("turn/start") == turns


@pytest.mark.req("R45", "R46")
def test_a_turn_that_was_refused_and_is_nowhere_on_its_thread_is_sent_with_its_own_packet(one: OneWorker) -> None:
    first = one.open(prompt(DONE))
    one.work(first)
    one.fake.write_faults({"method": "turn/start", "do": "refuse", "message": "not now", "at": 1})
    call = one.open(prompt(DONE, text="Next."), context=one.goes_on(first))
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, "host_infra_refused")
    ended = one.work(one.clear_hold(call))
    assert ended is not None and ended.status is Status.COMPLETED
    sent = [frame["params"] for frame in one.fake.requests("turn/start")[-2:]]
    assert [turn["clientUserMessageId"] for turn in sent] == [turn_operation(call.call_id, k) for k in (1, 2)]
    texts = [turn["input"][0]["text"].split("\n", 1)[1] for turn in sent]
    assert texts[0] == texts[1] and row_of(one, call, "turn_lost").detail["evidence"] == "no_turn"
    assert packets_of(one, call) == ["prompt", "prompt"] and not row_of(one, call, "completed").detail["repair_used"]


@pytest.mark.req("R45")
def test_a_refused_turn_that_its_thread_has_all_the_same_is_unknown_and_nothing_is_sent(one: OneWorker) -> None:
    first = one.open(prompt(DONE))
    one.work(first)
    one.fake.write_faults({"method": "turn/start", "do": "refuse", "message": "not now", "at": 1})
    call = one.open(prompt(DONE), context=one.goes_on(first))
    one.work(call)
    connection = one.worker.appserver.connection()
    with connection.turns.cursor(one.goes_on(first)["thread"]) as cursor:
        operation = turn_operation(call.call_id, 1)
        connection.turns.start(cursor, TurnRequest(operation, "n", prompt(DONE), "gpt-test", "low"))
        assert cursor.wait(20) is not None
    turns = one.sent("turn/start")
    ended = one.work(one.clear_hold(call))
    assert ended is not None and (ended.status, ended.reason) == (Status.OUTCOME_UNKNOWN, "turn_found")
    assert one.sent("turn/start") == turns


@pytest.mark.req("R46")
def test_a_repair_that_never_left_is_still_the_call_s_to_send(one: OneWorker) -> None:
    wrong = {"out": [{"msg": "no json", "phase": "final_answer"}]}
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [wrong, DONE]}})
    one.fake.write_faults({"method": "turn/start", "do": "refuse", "message": "not now", "at": 1})
    call = held(one, "[[script:late]]", "host_infra_refused")
    ended = one.work(one.clear_hold(call, input_state="not_delivered"))
    assert ended is not None and ended.status is Status.COMPLETED
    assert packets_of(one, call) == ["task", "repair", "repair"] and ended.meta.turns == 3


@pytest.mark.req("R41", "R42")
def test_a_held_call_whose_files_are_not_what_it_left_sends_nothing(one: OneWorker) -> None:
    call = held(one, prompt(WRITES, FAILS), "quota")
    Path(row_of(one, call, "placed").worktree_path or "", "made.txt").write_text("somebody")
    turns = one.sent("turn/start")
    ended = one.work(one.clear_hold(call))
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, "held_state_changed")
    assert one.sent("turn/start") == turns


@pytest.mark.req("R41")
@pytest.mark.parametrize(
    "at", [pytest.param("after:hold_cleared", marks=pytest.mark.slow), "after:turn_requested#2", "before:turn_ended#2"]
)
def test_a_death_of_a_call_that_goes_on_in_place_changes_nothing(one: OneWorker, at: str) -> None:
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [WRITES, FAILS, DONE]}, "default": [DONE]})
    call = held(one, "Do it. [[script:late]]", "quota")
    cleared = one.clear_hold(call)
    if at == "after:hold_cleared":
        one.die()
    else:
        one.work_until_death(cleared, at.replace("#2", ""))
    one.fake.write_scripts({"late": [DONE], "default": [DONE]})
    one.reincarnate()
    ended = one.work(cleared)
    assert ended is not None and ended.status is Status.COMPLETED
    assert "continue" in packets_of(one, call) and one.sent("thread/start") == 1


@pytest.mark.req("RULE12", "R41")
def test_a_held_call_that_comes_to_another_host_does_nothing_in_the_first_one_s_directory(one: OneWorker) -> None:
    call = one.open(prompt({"http": 400, "message": "no"}), node=None, role="architect")
    one.work(call)
    (placed,) = [row for row in one.rows(call) if row.event == "placed"]
    one.move("h2")
    before = one.sent("turn/start")
    ended = one.work(one.clear_hold(call))
    assert ended is not None and (ended.status, ended.reason) == ("held", "host_lost")
    assert one.sent("turn/start") == before and one.rows(call)[-2].event == "hold_cleared"
    assert placed.host == "h1"


def lose_home(one: OneWorker) -> None:
    """The host comes back with its worktrees, and a Codex home that knows no thread."""
    one.die()
    shutil.rmtree(one.settings.state_dir / "codex-home")
    one.reincarnate()


def lose_rollout(one: OneWorker, call: OpenCall) -> None:
    """The home is the same, and the call's thread is not in it."""
    one.worker.appserver.connection()._server.stop()
    thread = row_of(one, call, "thread_started").thread_id
    (one.settings.state_dir / "codex-home" / "sessions" / f"{thread}.json").unlink()


@pytest.mark.req("R41", "R43", "R35", "R36", "K42")
@pytest.mark.parametrize(("lost", "why"), [("home", "other_home"), ("rollout", "thread_missing")])
def test_a_delivered_call_whose_thread_is_gone_carries_on_in_a_new_one_that_is_told_of_it(
    one: OneWorker, lost: str, why: str
) -> None:
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [WRITES, FAILS]}, "default": [DONE]})
    call = held(one, "Build it. [[script:late]]", "quota")
    if lost == "home":
        lose_home(one)
    else:
        lose_rollout(one, call)
    one.fake.write_scripts({"late": [DONE], "default": [DONE]})
    ended = one.work(one.clear_hold(call))
    assert ended is not None and (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"})
    assert rungs(one, call) == [("checkpoint", why)]
    gone = row_of(one, call, "conversation").detail
    turns = [frame["params"] for frame in one.fake.requests("turn/start")]
    assert (gone["thread"], gone["through_turn"]) == (turns[0]["threadId"], row_of(one, call, "held").turn_id)
    assert turns[1]["threadId"] != turns[0]["threadId"] and one.sent("thread/start") == 2
    text = turns[1]["input"][0]["text"]
    said = ["Build it.", "the turn ended failed", "What is asked now:", "quota", "Carry on"]
    assert sorted(said, key=text.index) == said and text.count("Build it.") == 1
    assert turns[1]["outputSchema"]["properties"] == turns[0]["outputSchema"]["properties"]
    assert packets_of(one, call) == ["task", "checkpoint"]
    assert len({row.worktree_path for row in one.rows(call) if row.event == "placed"}) == 1
    # The next call of the conversation goes on in the thread that took the place.
    fix = one.open(prompt(DONE), context=one.goes_on(call))
    one.work(fix)
    assert rungs(one, fix) == [("same_thread", "same_home")]


@pytest.mark.req("R36", "R41")
@pytest.mark.parametrize(
    "at",
    [
        "after:conversation",
        pytest.param("after:checkpoint_started", marks=pytest.mark.slow),
        pytest.param("after:thread_requested", marks=pytest.mark.slow),
        "after:turn_requested",
    ],
)
def test_a_death_before_the_new_thread_heard_of_it_has_the_next_one_told_once(one: OneWorker, at: str) -> None:
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [WRITES, FAILS]}, "default": [DONE]})
    call = held(one, "Build it. [[script:late]]", "quota")
    lose_home(one)
    one.fake.write_scripts({"late": [DONE], "default": [DONE]})
    cleared = one.clear_hold(call)
    one.work_until_death(cleared, at)
    one.reincarnate()
    ended = one.work(cleared)
    assert ended is not None and ended.status is Status.COMPLETED
    (_, turn) = [frame["params"] for frame in one.fake.requests("turn/start")]
    text = turn["input"][0]["text"]
    assert text.count("Build it.") == text.count("Carry on") == 1

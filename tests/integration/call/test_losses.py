"""The worker lives and its App Server does not answer, hangs or dies: looked up, never sent again."""

from __future__ import annotations

import threading

import pytest

from shared.hub.refs import pending_ref
from shared.journal import runs
from shared.model.outcome import Ended, Status
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_going_on import WAITS, WRITES, check_completed, detail_of
from tests.repositories import git
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


def start(one: OneWorker, call: object) -> threading.Thread:
    working = threading.Thread(target=one.work, args=(call,))
    working.start()
    return working


@pytest.mark.req("K24", "K12", "C15", "T26", "K67")
def test_a_turn_whose_answer_was_lost_is_found_on_the_living_server_and_followed(one: OneWorker) -> None:
    one.fake.write_faults({"method": "turn/start", "do": "drop"})
    call = one.open(prompt(WRITES, DONE))
    one.work(call)
    check_completed(one, call)
    assert one.sent("turn/start") == 1 and one.sent("thread/resume") == 0


@pytest.mark.req("K24", "C15", "T27", "A20")
def test_a_turn_that_never_came_to_the_server_is_sent_again_only_when_that_server_is_gone(one: OneWorker) -> None:
    one.fake.write_faults({"method": "turn/start", "do": "lose"})
    call = one.open(prompt(DONE))
    working = start(one, call)
    # Faults are counted by process: the next server shall have none.
    ended = wait_until(lambda: [r for r in one.fake.requests() if r.get("event") == "exit"], 40, "the server's end")
    assert ended
    one.fake.write_faults()
    working.join(40)
    check_completed(one, call)
    asked = [row for row in one.rows(call) if row.event == "turn_requested"]
    assert [row.operation for row in asked] == [f"{call.call_id}/t1", f"{call.call_id}/t2"]
    assert asked[0].detail["generation"] != asked[1].detail["generation"]
    assert detail_of(one, call, "turn_lost")["thread_gone"]


@pytest.mark.req("A25", "T27")
def test_while_others_use_the_server_a_lost_turn_is_unknown(one: OneWorker) -> None:
    one.fake.write_faults({"method": "turn/start", "do": "lose"})
    held = one.worker.appserver.connection()
    ended = one.run(prompt(DONE))
    assert held.alive
    assert (ended.status, ended.reason) == (Status.OUTCOME_UNKNOWN, "answer_lost")
    assert one.sent("turn/start") == 1


@pytest.mark.req("K16")
def test_a_creation_that_was_not_answered_is_made_again_and_never_unknown(one: OneWorker) -> None:
    one.fake.write_faults({"method": "thread/start", "do": "drop"})
    call = one.open(prompt(DONE))
    one.work(call)
    check_completed(one, call)
    sources = [frame["params"]["threadSource"] for frame in one.fake.requests("thread/start")]
    assert sources == [f"crw:{one.run_id}/{call.call_id}/{ordinal}" for ordinal in (1, 2)]


@pytest.mark.req("T32", "A12")
@pytest.mark.parametrize("how", ["killed", "stopped in order"])
def test_a_server_that_ends_in_a_turn_is_followed_by_one_that_goes_on_with_it(one: OneWorker, how: str) -> None:
    call = one.open(prompt(WRITES, WAITS))
    working = start(one, call)
    wait_until(lambda: "user_message_seen" in one.words(call), 20, "the turn to be delivered")
    wait_until(lambda: len(one.fake.model_requests()) == 2, 20, "the turn to have written")
    if how == "killed":
        one.kill_server()
    else:
        one.worker.appserver.connection()._server.stop()
    one.fake.release("go")
    working.join(40)
    check_completed(one, call)
    first = next(row for row in one.rows(call) if row.event == "turn_ended")
    assert (first.detail["status"], first.detail["cut"]) == ("interrupted", True)
    assert one.sent("thread/start") == 1
    assert "line" in git(one.hub, "show", f"{one.rows(call)[-1].pending_tree}:made.txt")


@pytest.mark.req("RULE35")
def test_a_call_under_which_servers_die_again_and_again_is_held(one: OneWorker) -> None:
    one.fake.write_faults({"method": "turn/start", "do": "die_answered", "seconds": 0.3, "times": 9})
    ended = one.run(prompt({"hang": True}))
    assert (ended.status, ended.reason) == (Status.HELD, "worker_crashes")
    assert one.sent("turn/start") == 3


@pytest.mark.req("A14", "A25", "K30")
def test_a_completed_turn_that_cannot_be_read_is_unknown_and_never_empty(one: OneWorker) -> None:
    one.fake.write_faults({"method": "thread/turns/list", "do": "refuse", "message": "broken", "times": 99})
    call = one.open(prompt(DONE))
    one.work_until_death(call, "before:turn_ended")
    one.reincarnate()
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.OUTCOME_UNKNOWN, "unreadable")


@pytest.mark.req("T25")
def test_a_first_turn_is_sent_on_the_server_that_said_what_its_thread_is_or_not_at_all(one: OneWorker) -> None:
    one.fake.write_faults({"method": "thread/read", "do": "die_answered", "once": True})
    call = one.open(prompt(DONE))
    one.work(call)
    check_completed(one, call)
    threads = [row for row in one.rows(call) if row.event == "thread_started"]
    asked = [row for row in one.rows(call) if row.event == "turn_requested"]
    (frame,) = one.fake.requests("turn/start")
    assert len(threads) == 2 and threads[0].detail["generation"] != threads[1].detail["generation"]
    assert frame["params"]["threadId"] == threads[1].thread_id == asked[-1].thread_id
    assert asked[-1].detail["generation"] == threads[1].detail["generation"]


@pytest.mark.req("RULE34", "T37")
def test_a_worker_that_stops_leaves_its_call_to_the_next_one(one: OneWorker) -> None:
    call = one.open(prompt(WRITES, WAITS))
    working = start(one, call)
    wait_until(lambda: len(one.fake.model_requests()) == 2, 20, "the turn to have written")
    (hand,) = one.worker.hands.all()
    hand.tell("worker_stopped")
    working.join(30)
    assert one.ended(call) is None and one.words(call)[-1] == "turn_ended"
    one.die()
    one.fake.release("go")
    one.reincarnate()
    one.work(call)
    check_completed(one, call)


@pytest.mark.req("T37")
def test_a_cancelled_run_s_sent_turn_is_looked_up_before_its_call_ends_and_its_files_are_kept(one: OneWorker) -> None:
    call = one.open(prompt(WRITES, {"hang": True}))
    one.work_until_death(call, "after:user_message_seen")
    runs.set_stop(one.database, one.run_id, "cancel")
    one.reincarnate()
    ended: Ended | None = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, "cancel")
    assert detail_of(one, call, "turn_ended")["cut"] and one.sent("turn/start") == 1
    (held,) = [row for row in one.rows(call) if row.event == "held"]
    assert held.held_tree is not None
    kept = git(one.hub, "rev-parse", pending_ref(one.run_id, call.call_id) + "^{tree}")
    assert kept == held.held_tree


@pytest.mark.req("A18", "K15", "K16")
def test_a_thread_whose_creation_was_not_answered_is_made_again_and_the_first_one_is_put_aside(one: OneWorker) -> None:
    one.fake.write_faults({"method": "thread/start", "do": "drop", "once": True})
    call = one.open(prompt(DONE))
    ended = one.work(call)
    assert ended is not None and ended.status is Status.COMPLETED
    sources = [frame["params"]["threadSource"] for frame in one.fake.requests("thread/start")]
    assert sources == [f"crw:{one.run_id}/{call.call_id}/{number}" for number in (1, 2)]
    # It has had no turn, so only the memory of the server that made it tells of it.
    assert one.sent("thread/loaded/list") >= 1
    (aside,) = one.fake.requests("thread/archive")
    assert aside["params"]["threadId"] != ended.meta.thread_id
    assert one.sent("turn/start") == 1

"""A worker dies after any row of a call; the host's next one goes on with it: nothing twice, nothing lost."""

from __future__ import annotations

import fcntl
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shared.journal.append import OpenCall
from shared.model.outcome import Status
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.repositories import git
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

WRITES = {"out": [{"exec": "echo line >> made.txt"}]}
WAITS = {"wait_event": "go", **DONE}
# Before a turn can be sent; while it may be under way; behind its end.
UNSENT = ["after:prepared", "after:placed", "after:thread_requested", "before:thread_started", "after:thread_started"]
SENT = ["after:turn_requested", "before:turn_started", "after:turn_started", "after:user_message_seen"]
ENDED = ["before:turn_ended", "after:turn_ended", "before:push_requested", "after:push_requested", "before:completed"]


def check_nothing_twice(one: OneWorker, call: OpenCall) -> None:
    """What must hold whatever died: by the host's own log and by the rows."""
    sent = Counter(frame["params"]["clientUserMessageId"] for frame in one.fake.requests("turn/start"))
    assert set(sent.values()) <= {1}, f"an ordinal was used for two sends: {sent}"
    announced = [row.operation for row in one.rows(call) if row.event == "turn_requested"]
    assert len(announced) == len(set(announced))
    assert {name for name in sent if name.startswith(call.call_id)} <= set(announced), "a frame without its intent"
    inputs = Counter((entry["turn"], entry["request"]) for entry in one.fake.model_requests())
    assert set(inputs.values()) <= {1}
    ends = [row.attempt for row in one.rows(call) if row.event in ("completed", "held", "outcome_unknown")]
    assert len(ends) == 1


def check_completed(one: OneWorker, call: OpenCall) -> None:
    ended = one.ended(call)
    assert ended is not None, one.words(call)
    assert (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"}), ended
    check_nothing_twice(one, call)


def detail_of(one: OneWorker, call: OpenCall, word: str) -> dict[str, Any]:
    return dict([row for row in one.rows(call) if row.event == word][-1].detail)


@pytest.mark.req("J07", "K16", "T24", "A24")
@pytest.mark.parametrize("at", UNSENT[1:])
def test_a_call_that_had_sent_no_turn_is_begun_again(one: OneWorker, at: str) -> None:
    call = one.open(prompt(WRITES, DONE))
    one.work_until_death(call, at)
    one.reincarnate()
    one.work(call)
    check_completed(one, call)
    assert one.sent("turn/start") == 1
    placed = [row.worktree_path for row in one.rows(call) if row.event == "placed"]
    # A directory that was made whole is used again; one that may be half made is not.
    assert len(placed) == (2 if at == "after:placed" else 1)
    sources = [frame["params"]["threadSource"] for frame in one.fake.requests("thread/start")]
    assert len(sources) == len(set(sources))


@pytest.mark.req("W05")
def test_a_death_behind_the_announced_directory_loses_nothing_of_the_one_before_it(one: OneWorker) -> None:
    unanswered = one.run(prompt(WRITES, {"out": [{"msg": "x", "phase": "commentary"}]}))
    assert unanswered.status is Status.NULL_MODEL
    call = one.open(prompt(DONE))
    one.work_until_death(call, "after:placed")
    one.reincarnate()
    one.work(call)
    check_completed(one, call)
    (kept,) = [row for row in one.rows(call) if row.event == "placed"][-1].detail["kept"]
    assert kept in one.fake.requests("turn/start")[-1]["params"]["input"][0]["text"]
    assert git(one.hub, "show", f"{kept}:made.txt") == "line"


@pytest.mark.req("J07", "K17", "K18", "A07", "RULE6", "T26", "A24")
@pytest.mark.parametrize("at", SENT)
def test_a_turn_that_a_death_cut_or_kept_from_its_thread_is_gone_on_with(one: OneWorker, at: str) -> None:
    call = one.open(prompt(WRITES, WAITS))
    one.work_until_death(call, at)
    one.fake.release("go")
    one.reincarnate()
    one.work(call)
    check_completed(one, call)
    tree = [row for row in one.rows(call) if row.event == "completed"][-1].pending_tree
    assert "line" in git(one.hub, "show", f"{tree}:made.txt")
    again = [row for row in one.rows(call) if row.event == "turn_requested"][-1]
    if "turn_lost" in one.words(call):
        assert again.detail["packet"]["kind"] == "task"
    else:
        # It was at work: it is told to carry on, in the same thread and directory.
        assert detail_of(one, call, "turn_ended")["status"] == "completed"
        assert again.detail["packet"] == {"kind": "continue", "reason": "the App Server ended"}
        assert one.sent("thread/start") == 1
    assert not again.detail["repair"]


@pytest.mark.req("K18", "K27", "A19", "RULE6")
def test_a_turn_whose_frame_never_left_is_proven_lost_and_its_input_sent_under_the_next_ordinal(one: OneWorker) -> None:
    call = one.open(prompt(DONE))
    one.work_until_death(call, "after:turn_requested")
    one.reincarnate()
    one.work(call)
    check_completed(one, call)
    (frame,) = one.fake.requests("turn/start")
    assert frame["params"]["clientUserMessageId"] == f"{call.call_id}/t2"
    asked, lost = (detail_of(one, call, word) for word in ("turn_requested", "turn_lost"))
    assert lost["evidence"] == "no_thread" and lost["thread_gone"]
    assert lost["home_id"] == asked["home_id"] and lost["boot_id"] == asked["boot_id"]
    assert lost["worker_id"] == asked["worker_id"] and lost["generation"]


@pytest.mark.req("J07", "T32", "A12", "T37")
@pytest.mark.parametrize("at", ENDED)
def test_a_turn_that_ended_is_adopted_and_not_asked_for_again(one: OneWorker, at: str) -> None:
    call = one.open(prompt(WRITES, DONE))
    one.work_until_death(call, at)
    one.reincarnate()
    one.work(call)
    check_completed(one, call)
    assert one.sent("turn/start") == 1 and len(one.fake.model_requests()) == 2
    tree = [row for row in one.rows(call) if row.event == "completed"][-1].pending_tree
    assert git(one.hub, "show", f"{tree}:made.txt") == "line"


@pytest.mark.req("A24", "A23")
@pytest.mark.parametrize("at", ["after:turn_ended", "after:turn_requested#2", "after:turn_ended#2"])
def test_a_call_keeps_its_one_repair_turn_over_a_death(one: OneWorker, at: str) -> None:
    wrong = {"out": [{"msg": "no json", "phase": "final_answer"}]}
    one.fake.write_scripts({"late": {"by_thread": True, "steps": [wrong, DONE]}, "default": [DONE]})
    call = one.open("[[script:late]]")
    one.work_until_death(call, at)
    # The new server's scripts begin from their first step; the thread's next answer is the right one.
    one.fake.write_scripts({"late": [DONE], "default": [DONE]})
    one.reincarnate()
    one.work(call)
    check_completed(one, call)
    repairs = [row for row in one.rows(call) if row.event == "turn_requested" and row.detail["repair"]]
    delivered = [frame for frame in one.fake.requests("turn/start") if "not have the form" in str(frame["params"])]
    assert repairs and len(delivered) == 1


@pytest.mark.req("K19", "T32")
def test_an_interrupt_that_a_death_followed_ends_the_call_with_its_reason(one: OneWorker) -> None:
    call = one.open(prompt(WRITES, {"hang": True}))

    def tell_deadline() -> None:
        wait_until(lambda: len(one.fake.model_requests()) == 2, 20, "the turn to have written")
        for hand in one.worker.hands.all():
            hand.tell("deadline")

    threading.Thread(target=tell_deadline).start()
    one.work_until_death(call, "after:interrupt_requested")
    one.reincarnate()
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, "deadline")
    assert one.sent("turn/start") == 1
    assert git(one.hub, "show", f"{one.rows(call)[-1].held_tree}:made.txt") == "line"


@pytest.mark.req("RULE6", "A25", "K18", "R02")
@pytest.mark.parametrize("why", ["space_alarm", "other_home", "other_boot"])
def test_an_absence_proves_nothing_elsewhere_after_a_boot_or_a_full_disk(
    one: OneWorker, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = one.open(prompt(DONE))
    one.work_until_death(call, "after:turn_requested")
    if why == "other_home":
        (one.settings.state_dir / "codex-home" / "crw-home-id").unlink()
    if why == "other_boot":
        monkeypatch.setattr("workers.incarnation.boot_id", lambda: "another boot")
    one.reincarnate()
    if why == "space_alarm":
        one.application.state.mark_space_alarm()
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.OUTCOME_UNKNOWN, why)
    assert one.sent("turn/start") == 0


@pytest.mark.req("K17", "RULE4", "A25")
def test_a_thread_that_another_process_has_open_is_unknown_whatever_its_turn_reads_as(one: OneWorker) -> None:
    call = one.open(prompt({"hang": True}))
    one.work_until_death(call, "after:user_message_seen")
    thread = [row.thread_id for row in one.rows(call) if row.event == "thread_started"][-1]
    lock = one.settings.state_dir / "codex-home" / "thread-writer-locks" / f"{thread}.lock"
    with open(lock, "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        one.reincarnate()
        ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.OUTCOME_UNKNOWN, "thread_busy")
    assert one.sent("turn/start") == 1


@pytest.mark.req("RULE35")
def test_a_call_under_which_workers_die_again_and_again_is_held(one: OneWorker) -> None:
    call = one.open(prompt(WRITES, {"hang": True}))
    for _ in range(3):
        one.work_until_death(call, "after:user_message_seen")
        one.reincarnate()
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.reason) == (Status.HELD, "worker_crashes")
    assert one.sent("turn/start") == 3
    assert "line" in git(one.hub, "show", f"{one.rows(call)[-1].held_tree}:made.txt")


@pytest.mark.req("RULE12", "A24")
def test_a_continuation_goes_on_in_its_thread_after_a_death(one: OneWorker) -> None:
    first = one.open(prompt(WRITES, DONE))
    begun = one.work(first)
    assert begun is not None
    context = {"kind": "continue", "call": first.call_id, "thread": begun.meta.thread_id, "host": "h1"}
    second = one.open(prompt(WRITES, DONE), context={**context, "through_turn": begun.meta.turn_id})
    one.work_until_death(second, "after:turn_requested")
    one.reincarnate()
    one.work(second)
    check_completed(one, second)
    assert one.sent("thread/start") == 1
    assert detail_of(one, second, "turn_lost")["evidence"] == "no_turn"
    assert (Path(one.rows(second)[-1].worktree_path or "") / "made.txt").read_text() == "line\nline\n"

"""What an unknown call came to is looked up on its host, and written only when it is proven."""

from __future__ import annotations

import contextlib
import fcntl
from typing import Any

import pytest

from shared.journal import questions, read
from shared.journal.append import OpenCall, RunRows
from shared.journal.removals import removing
from shared.model.outcome import Status
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_going_on import WRITES
from tests.repositories import git
from workers.call import recover as recover_module
from workers.call.recover import recover_call
from workers.questions import Questions
from workers.rollouts import remove_threads
from workers.worktrees.clean import clean_host

pytestmark = pytest.mark.timeout(120)


def make_unknown(one: OneWorker, at: str, *steps: dict[str, Any]) -> OpenCall:
    """A call whose thread another process had open when the next incarnation looked; its run has ended since."""
    call = one.open(prompt(*steps))
    one.work_until_death(call, at)
    thread = next(row.thread_id for row in one.rows(call) if row.event == "thread_started")
    lock = one.settings.state_dir / "codex-home" / "thread-writer-locks" / f"{thread}.lock"
    with open(lock, "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        one.reincarnate()
        ended = one.work(call)
    assert ended is not None and ended.status is Status.OUTCOME_UNKNOWN
    return call


def end_run(one: OneWorker) -> None:
    one._writer.submit(RunRows(one.lease, finish=True)).result()


def recover(one: OneWorker, call: OpenCall) -> dict[str, Any]:
    asked = questions.ask(one.database, "h1", questions.RECOVER, one.run_id, call.call_id)
    assert questions.ask(one.database, "h1", questions.RECOVER, one.run_id, call.call_id) == asked
    Questions(one.worker, {questions.RECOVER: recover_call}).answer_open()
    found = questions.load_answer(one.database, asked)
    assert found is not None
    return found


@pytest.mark.req("R49", "R50", "A18", "K74", "J46")
def test_a_turn_that_had_completed_gives_the_call_its_result_in_one_transaction(one: OneWorker) -> None:
    call = make_unknown(one, "before:turn_ended", WRITES, DONE)
    end_run(one)
    before = one.rows(call)
    assert recover(one, call) == {"proven": True, "status": "completed", "reason": None}
    ended = one.ended(call)
    assert ended is not None and (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"})
    new = one.rows(call)[len(before) :]
    assert [row.event for row in new] == ["recovery_cleared", "turn_ended", "push_requested", "completed"]
    assert {row.attempt for row in new} == {1} and {row.host for row in new} == {"h1"}
    seqs = [row.seq for row in read.load(one.database, one.run_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    # One transaction: its rows have one xmin.
    (made,) = one.farm.rows(
        "select count(distinct xmin::text) from flow_calls where call_id = %(call)s and attempt = 1", call=call.call_id
    )
    assert made == (1,)
    assert git(one.hub, "show", f"{new[-1].pending_tree}:made.txt") == "line"
    assert (ended.meta.turns, ended.meta.thread_id) == (1, before[-1].thread_id or ended.meta.thread_id)
    assert one.sent("turn/start") == 1


@pytest.mark.req("R50", "K17", "K18")
@pytest.mark.parametrize(
    ("at", "steps", "state"),
    [
        ("after:user_message_seen", (WRITES, {"hang": True}), "delivered"),
        ("after:turn_requested", (DONE,), "not_delivered"),
    ],
)
def test_a_turn_that_was_cut_or_lost_leaves_the_call_held_for_a_resume(
    one: OneWorker, at: str, steps: Any, state: str
) -> None:
    call = make_unknown(one, at, *steps) if state == "delivered" else _unknown_by_alarm(one, at, *steps)
    end_run(one)
    assert recover(one, call)["status"] == "held"
    row = one.rows(call)[-1]
    assert (row.event, row.detail["reason"], row.input_state) == ("held", "recovered", state)


@pytest.mark.req("R50", "RULE39")
def test_what_a_clean_removed_is_no_proof_that_a_turn_was_not_delivered(one: OneWorker) -> None:
    call = _unknown_by_alarm(one, "after:turn_requested", DONE)
    end_run(one)
    with removing(one.database, one.run_id, "host h1") as go_on:
        clean_host(one.worker.mirrors, one.settings.state_dir, str(one.hub), one.run_id, go_on)
        remove_threads(one.worker, one.run_id, go_on)
    found = recover(one, call)
    assert (found["proven"], found["reason"]) == (False, "cleaned")
    assert one.rows(call)[-1].event == "outcome_unknown"


@pytest.mark.req("R50", "RULE39")
@pytest.mark.parametrize("over", [False, True])
def test_a_recovery_writes_nothing_of_what_was_removed_while_it_looked(
    one: OneWorker, monkeypatch: pytest.MonkeyPatch, over: bool
) -> None:
    call = make_unknown(one, "before:turn_ended", WRITES, DONE)
    end_run(one)
    look = recover_module.settle_state
    with contextlib.ExitStack() as removal:

        def look_while_it_goes(*given: Any) -> Any:
            seen = look(*given)
            removal.enter_context(removing(one.database, one.run_id, "host h1"))
            if over:
                removal.close()
            return seen

        monkeypatch.setattr(recover_module, "settle_state", look_while_it_goes)
        found = recover(one, call)
    assert (found["proven"], found["reason"]) == (False, "not_recoverable")
    assert ("was removed while" if over else "is being removed now") in found["sentence"]
    assert one.rows(call)[-1].event == "outcome_unknown"


def _unknown_by_alarm(one: OneWorker, at: str, *steps: dict[str, Any]) -> OpenCall:
    call = one.open(prompt(*steps))
    one.work_until_death(call, at)
    home = one.settings.state_dir / "codex-home" / "crw-home-id"
    known = home.read_text()
    home.write_text("elsewhere\n")
    one.reincarnate()
    ended = one.work(call)
    assert ended is not None and ended.reason == "other_home"
    one.die()
    home.write_text(known)
    one.reincarnate()
    return call


@pytest.mark.req("R50")
def test_a_proof_that_does_not_hold_writes_nothing(one: OneWorker) -> None:
    call = one.open(prompt(DONE))
    one.work_until_death(call, "after:turn_requested")
    one.reincarnate()
    one.application.state.mark_space_alarm()
    assert one.work(call).reason == "space_alarm"  # type: ignore[union-attr]
    end_run(one)
    before = one.rows(call)
    found = recover(one, call)
    assert (found["proven"], found["reason"]) == (False, "space_alarm") and "proves nothing" in found["sentence"]
    assert one.rows(call) == before


@pytest.mark.req("R49")
def test_nothing_is_written_while_a_scheduler_drives_the_run(one: OneWorker) -> None:
    call = make_unknown(one, "before:turn_ended", DONE)
    before = one.rows(call)
    found = recover(one, call)
    assert (found["proven"], found["reason"]) == (False, "not_recoverable") and "being driven" in found["sentence"]
    assert one.rows(call) == before


@pytest.mark.req("R50", "RULE26")
def test_a_call_that_was_recovered_is_not_recovered_again(one: OneWorker) -> None:
    call = make_unknown(one, "before:turn_ended", DONE)
    end_run(one)
    assert recover(one, call)["proven"]
    again = recover(one, call)
    assert (again["proven"], again["reason"]) == (False, "not_unknown")

"""What a host answers when a resume asks what is still there, and how the question survives everything else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from shared.broker.names import host_mark
from shared.journal import questions, read, run_leases
from shared.journal.append import OpenCall
from shared.model.outcome import Status
from shared.model.proof import PROOFS, Answer
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.waiting import wait_until
from workers.proofs.answer import answer_proofs
from workers.questions import Questions

WRITES = {"out": [{"exec": "printf hello > made.txt"}]}


def build(one: OneWorker) -> tuple[OpenCall, Path]:
    call = one.open(prompt(WRITES, DONE))
    ended = one.work(call)
    assert ended is not None and ended.status is Status.COMPLETED
    return call, Path(str(next(row.worktree_path for row in one.rows(call) if row.event == "placed")))


def ask(one: OneWorker, epoch: int | None = None) -> str:
    epoch = one.lease.epoch if epoch is None else epoch
    return questions.ask(one.database, "h1", PROOFS, one.run_id, epoch=epoch)


def answers(one: OneWorker) -> Questions:
    return Questions(one.worker, {PROOFS: answer_proofs})


def proofs(one: OneWorker) -> Answer:
    question = ask(one)
    answers(one).answer_open()
    found = questions.load_answer(one.database, question)
    assert found is not None
    return Answer.from_json(found)


@pytest.mark.req("RULE26", "K37", "P06", "P15")
def test_one_question_tells_of_all_nodes_what_git_says_now(one: OneWorker) -> None:
    call, worktree = build(one)
    before = [row.seq for row in read.load(one.database, one.run_id)]
    answer = proofs(one)
    assert answer.verdicts == {} and answer.nodes["n1"].worktree == str(worktree)
    assert answer.nodes["n1"].snapshot == one.rows(call)[-1].pending_tree

    (worktree / "made.txt").write_text("touched")
    assert proofs(one).verdict(call.call_id).reason == "files_changed"
    (worktree / "made.txt").write_text("hello")
    assert proofs(one).verdict(call.call_id).proven
    assert [row.seq for row in read.load(one.database, one.run_id)] == before


@pytest.mark.req("RULE26")
def test_a_question_counts_for_its_epoch_and_is_put_once_at_a_time(one: OneWorker) -> None:
    build(one)
    first = ask(one)
    assert ask(one) == first and ask(one, one.lease.epoch + 1) != first
    answers(one).answer_open()
    assert ask(one) != first

    run_leases.let_go(one.database, one.lease, broke=False)
    one.farm.take(one.farm.new_scheduler())
    stale = ask(one, one.lease.epoch)
    answers(one).answer_open()
    assert questions.load_answer(one.database, stale) == {"stale": True}


@pytest.mark.req("RULE26", "RULE25")
def test_a_host_that_comes_back_answers_what_it_was_asked_meanwhile(one: OneWorker) -> None:
    build(one)
    question = ask(one)
    one.die()
    one.reincarnate()
    answers(one).answer_open()
    found = questions.load_answer(one.database, question)
    assert found is not None and set(found["nodes"]) == {"n1"}


@pytest.mark.req("RULE10")
def test_a_stranded_call_is_judged_by_what_was_there_when_it_began(one: OneWorker) -> None:
    first, worktree = build(one)
    end = one.ended(first)
    assert end is not None
    context = {
        "kind": "continue", "call": first.call_id, "thread": end.meta.thread_id, "host": "h1",
        "through_turn": end.meta.turn_id,
    }  # fmt: skip
    fix = one.open(prompt({"out": [{"exec": "printf half > made.txt"}]}, DONE), context=context)
    one.work_until_death(fix, "after:turn_ended")
    one.reincarnate()
    assert (worktree / "made.txt").read_text() == "half"

    assert proofs(one).verdicts == {}
    one.work(fix)
    assert proofs(one).verdicts == {}


@pytest.mark.req("R41", "R48")
def test_a_held_call_is_compared_with_its_own_worktree(one: OneWorker) -> None:
    call = one.open(prompt(WRITES, {"http": 400, "message": "no"}))
    ended = one.work(call)
    assert ended is not None and ended.status is Status.HELD
    held = one.rows(call)[-1]
    assert proofs(one).held[call.call_id].in_place

    (Path(str(held.worktree_path)) / "made.txt").write_text("touched")
    state = proofs(one).held[call.call_id]
    assert (state.in_place, state.reason) == (False, "files_changed") and state.snapshot != held.held_tree


@pytest.mark.req("RULE25", "RULE26")
def test_a_wake_up_brings_the_answer_long_before_the_next_look(one: OneWorker) -> None:
    build(one)
    one.worker.settings.poll_seconds = 600
    asked = threading.Thread(target=answers(one).loop, daemon=True)
    asked.start()
    question = ask(one)

    def told_and_answered() -> bool:
        one.worker.wakeups.tell(host_mark("h1"))
        return questions.load_answer(one.database, question) is not None

    wait_until(told_and_answered, 5, "the answer")
    one.worker.stopping.set()
    one.worker.wakeups.tell(host_mark("h1"))
    asked.join(5)
    assert not asked.is_alive()

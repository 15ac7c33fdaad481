"""`crw flow recover`: who is asked, what each answer exits with, and what is refused before anybody is asked."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from scheduler import guarding
from shared.hub.refs import guard_ref
from shared.journal import questions, read
from shared.journal.append import CallRows, OpenCall, RunLease, RunRows
from shared.journal.database import Database
from shared.model.call_state import RECOVERY_HOLD
from shared.model.roles import Role
from shared.model.rows import NewCallRow
from tests.integration.cli.conftest import Crw
from tests.journal_farm import Farm
from tests.repositories import git
from tests.waiting import wait_until

AGENT = {"prompt": "x", "schema": None, "role": "executor", "pair": ["m", "low"], "context": {"kind": "fresh"}}


def open_unknown(
    journal: Farm,
    worker: str,
    event: str = "outcome_unknown",
    *,
    detail: dict[str, Any] | None = None,
    also: NewCallRow | None = None,
    **spec: Any,
) -> tuple[RunLease, OpenCall]:
    lease = journal.new_run(**spec)
    call = journal.open(
        lease, kind="agent", effect="executor", node="n1", prepared=NewCallRow("prepared", AGENT, role="executor")
    )
    claim = journal.claim(worker, call)
    asked = NewCallRow("turn_requested", detail or {}, thread_id="th", operation=f"{call.call_id}/t1")
    end = NewCallRow(event, {"reason": "thread_busy"})
    journal.writer.submit(CallRows(claim, (asked, also) if also else (asked,))).result()
    journal.writer.submit(CallRows(claim, (end,))).result()
    return lease, call


def finish(journal: Farm, lease: RunLease) -> None:
    journal.writer.submit(RunRows(lease, finish=True)).result()


def answer_when_asked(database: Database, worker: str, found: dict[str, Any]) -> threading.Thread:
    def wait_and_answer() -> None:
        (asked,) = wait_until(lambda: questions.open_questions(database, "h1"), 20, "the question")
        assert questions.answer(database, asked.question_id, worker, found)

    answering = threading.Thread(target=wait_and_answer)
    answering.start()
    return answering


@pytest.mark.req("R50", "X12", "R51", "K74")
@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        ({"proven": True, "status": "completed", "reason": None}, 0, "completed"),
        ({"proven": True, "status": "held", "reason": "recovered"}, 0, "held (recovered)"),
        (
            {"proven": False, "reason": "thread_busy", "sentence": "it is open elsewhere"},
            1,
            "stays unknown (thread_busy)",
        ),
    ],
)
def test_the_host_s_answer_is_said_and_decides_the_status(
    crw: Crw, journal: Farm, database: Database, found: dict[str, Any], status: int, words: str
) -> None:
    worker = journal.new_worker()
    lease, call = open_unknown(journal, worker)
    finish(journal, lease)
    answering = answer_when_asked(database, worker, found)
    said = crw("flow", "recover", call.call_id, "--run", lease.run_id)
    answering.join(20)
    assert (said.status, words in said.out) == (status, True), said


@pytest.mark.req("R50")
def test_a_host_that_is_silent_leaves_the_question_for_its_return(crw: Crw, journal: Farm, database: Database) -> None:
    lease, call = open_unknown(journal, journal.new_worker())
    finish(journal, lease)
    said = crw("flow", "recover", call.call_id, "--wait", "0", "--json")
    assert said.status == 1
    assert (said.records[0]["proven"], said.records[0]["reason"]) == (False, "host_silent")
    (asked,) = questions.open_questions(database, "h1")
    assert crw("flow", "recover", call.call_id, "--wait", "0").status == 1
    assert questions.open_questions(database, "h1") == [asked]


@pytest.mark.req("R50", "R49")
def test_what_cannot_be_recovered_exits_with_2_and_asks_nobody(crw: Crw, journal: Farm, database: Database) -> None:
    worker = journal.new_worker()
    lease, call = open_unknown(journal, worker)
    running = crw("flow", "recover", call.call_id)
    assert running.status == 2 and f"crw flow cancel {lease.run_id}" in running.err
    finish(journal, lease)
    other, held = open_unknown(journal, worker, "held")
    finish(journal, other)
    refused = [
        ("no call id", ("c1",)),
        ("there is no call", ("c" + "a" * 24,)),
        (f"belongs to run {lease.run_id}", (call.call_id, "--run", other.run_id)),
        ("is not unknown: it is held", (held.call_id,)),
    ]
    for words, arguments in refused:
        said = crw("flow", "recover", *arguments)
        assert said.status == 2 and words in said.err, said
    assert questions.open_questions(database, "h1") == []


@pytest.mark.req("R50", "RULE19")
def test_a_call_of_a_host_that_was_given_up_is_taken_back_where_it_may_run_again(
    crw: Crw, journal: Farm, database: Database
) -> None:
    lease, call = open_unknown(journal, journal.new_worker())
    finish(journal, lease)
    said = crw("flow", "recover", call.call_id, "--wait", "0")
    assert said.status == 1 and "'crw host lost h1' and recover the call once more" in said.out
    assert crw("host", "lost", "h1", "--yes").status == 0
    said = crw("flow", "recover", call.call_id)
    words = f"call {call.call_id} superseded (host_lost): host h1 was given up; a resume of the run does the call again"
    assert said.status == 0 and words in said.out, said
    rows = read.load_call(database, call.call_id)
    assert [row.event for row in rows][-2:] == ["outcome_unknown", "superseded"]
    assert [row.seq for row in read.load(database, lease.run_id)] == list(range(1, rows[-1].seq + 1))
    again = crw("flow", "recover", call.call_id)
    assert again.status == 2 and "is not unknown: it is superseded" in again.err


@pytest.mark.req("R50", "RULE6")
def test_the_same_goes_for_a_home_that_is_no_more_while_its_name_is_in_use(crw: Crw, journal: Farm) -> None:
    worker = journal.new_worker()
    lease, call = open_unknown(journal, worker, detail={"worker_id": worker})
    finish(journal, lease)
    assert crw("host", "lost", "h1", "--yes").status == 0
    journal.new_worker("h1", host_id="another", home_id="another")
    assert crw("flow", "recover", call.call_id).status == 0


@pytest.mark.req("R50", "RULE19", "RULE7")
def test_what_could_happen_a_second_time_stays_unknown_and_says_what_can_be_done(crw: Crw, journal: Farm) -> None:
    roles = {"executor": Role("executor", "m", "low", "danger-full-access", "")}
    lease, call = open_unknown(journal, journal.new_worker(), roles=roles)
    finish(journal, lease)
    crw("host", "lost", "h1", "--yes")
    said = crw("flow", "recover", call.call_id)
    assert said.status == 1 and "the sandbox of role executor was open" in said.out
    assert f"crw flow fork {lease.run_id} --at main:{call.position}" in said.out


@pytest.mark.req("R50", "RULE7")
def test_a_call_that_may_have_pushed_is_not_taken_back_before_the_guard_has_moved(
    crw: Crw, journal: Farm, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarding, "_HUB_PATIENCE_SECONDS", 0.1)
    pushed = NewCallRow("push_requested", {"ref": "refs/heads/x", "guard": None})
    lease, call = open_unknown(journal, journal.new_worker(), also=pushed, hub=str(place / "repo"))
    finish(journal, lease)
    crw("host", "lost", "h1", "--yes")
    (place / "repo").rename(place / "away")
    said = crw("flow", "recover", call.call_id)
    assert said.status == 1 and "stays unknown (guard_not_moved)" in said.out, said
    (place / "away").rename(place / "repo")
    assert crw("flow", "recover", call.call_id).status == 0
    assert git(place / "repo", "rev-parse", guard_ref(lease.run_id))


@pytest.mark.req("R53")
def test_show_says_why_a_call_is_unknown_and_what_to_type(crw: Crw, journal: Farm) -> None:
    lease, call = open_unknown(journal, journal.new_worker())
    said = crw("flow", "show", call.call_id)
    assert "turn t1 was asked for on host h1 and what came of it is not known (thread_busy)" in said.out
    assert f"crw flow recover {call.call_id}" in said.out
    assert f"crw flow recover {call.call_id}" in crw("flow", "show", lease.run_id).out
    shown = crw("flow", "show", call.call_id, "--json").records[0]
    assert shown["recover"] == call.call_id and RECOVERY_HOLD not in shown["why"]

"""A resume asks each host once, waits for silent ones by name, and lets the rows speak for those given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.resume import host_questions
from scheduler.resume.host_questions import HostQuestions
from scheduler.resume.proving import Proving
from shared.base.errors import HostUnreachable, RightLost
from shared.broker.names import host_mark
from shared.hub.refs import pending_ref
from shared.journal import read, run_leases
from shared.model.proof import PROOFS, Verdict
from shared.model.rows import CallRow, NewEventRow
from tests.factories import make_call_row
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_proofs import build
from tests.repositories import commit_files, git
from workers.proofs.answer import answer_proofs
from workers.questions import Questions


@contextmanager
def answering(one: OneWorker) -> Iterator[None]:
    """The host answers what it is asked."""
    thread = threading.Thread(target=Questions(one.worker, {PROOFS: answer_proofs}).loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        one.worker.stopping.set()
        one.worker.wakeups.tell(host_mark("h1"))
        thread.join(10)
        one.worker.stopping.clear()


class Asker:
    """One process that resumes the run. `notes` are the rows it wrote."""

    def __init__(self, one: OneWorker, **options: Any) -> None:
        self.notes: list[NewEventRow] = []
        rows = read.load(one.database, one.run_id)
        tell, note = one.worker.wakeups.tell, self.notes.append
        questions = HostQuestions(one.database, one.run_id, one.lease.epoch, tell=tell, note=note, **options)
        self.proving = Proving(one.database, one.run_id, rows, questions)

    def verdicts(self, *calls: Sequence[CallRow]) -> list[Verdict]:
        """Of several calls, asked at once."""

        async def ask() -> list[Verdict]:
            return list(await asyncio.gather(*map(self.proving.verdict, calls)))

        return asyncio.run(ask())


def asked(one: OneWorker) -> int:
    return int(one.farm.rows("select count(*) from host_questions")[0][0])


def give_up_host(one: OneWorker) -> None:
    with one.database.transaction() as connection:
        connection.exec_driver_sql("update farm_hosts set state = 'lost' where host = 'h1'")


@pytest.mark.req("K37", "RULE26", "R12")
def test_one_question_answers_for_all_positions(one: OneWorker) -> None:
    first, worktree = build(one)
    second = one.open(prompt({"out": [{"exec": "printf two > two.txt"}]}, DONE), node="n2")
    one.work(second)
    (worktree / "made.txt").write_text("touched")
    asker = Asker(one)
    with answering(one):
        verdicts = asker.verdicts(one.rows(first), one.rows(second), one.rows(first))

    assert [verdict.reason for verdict in verdicts] == ["files_changed", None, "files_changed"]
    assert asked(one) == 1 and asker.notes == []


@pytest.mark.req("K37", "R12")
def test_nobody_is_asked_for_calls_that_left_nothing(one: OneWorker) -> None:
    reader = one.open(prompt(DONE), role="reviewer", node="n1")
    one.work(reader)
    assert Asker(one).verdicts(one.rows(reader)) == [Verdict(True)] and asked(one) == 0


@pytest.mark.req("O16", "O03")
def test_a_verification_that_could_not_run_is_no_record(one: OneWorker) -> None:
    def ended(**given: Any) -> list[CallRow]:
        return [make_call_row(kind="verify", event="completed", **given)]

    asker = Asker(one)
    ran, old, failed_to, old_failed_to = (
        ended(detail={"ran": True}),
        ended(result=b'{"ran": true}'),
        ended(detail={"ran": False}),
        ended(result=b'{"ran": false}'),
    )
    verdicts = asker.verdicts(ran, old, failed_to, old_failed_to)
    assert [verdict.reason for verdict in verdicts] == [None, None, "did_not_run", "did_not_run"]


@pytest.mark.req("K38", "RULE26", "RULE27")
def test_a_silent_host_is_waited_for_by_name(one: OneWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_questions, "_SILENT_SECONDS", 0.2)
    call, _ = build(one)
    asker = Asker(one, escalate_seconds=0.4)

    async def resume() -> Verdict:
        waiting = asyncio.create_task(asker.proving.verdict(one.rows(call)))
        while len(asker.notes) < 2:
            await asyncio.sleep(0.05)
        assert not waiting.done()
        with answering(one):
            return await waiting

    assert asyncio.run(resume()).proven
    assert [(row.kind, row.data.get("reason")) for row in asker.notes] == [
        ("waiting_for_host", "host_unreachable"),
        ("escalation", "waiting_for_host"),
        ("host_answered", None),
    ]
    assert asker.notes[0].data["host"] == "h1"


@pytest.mark.req("K38", "RULE27")
def test_a_silent_host_that_is_given_up_is_not_said_to_have_answered(
    one: OneWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_questions, "_SILENT_SECONDS", 0.2)
    monkeypatch.setattr(host_questions, "_STANDING_SECONDS", 0.2)
    call, _ = build(one)
    asker = Asker(one)

    async def resume() -> Verdict:
        waiting = asyncio.create_task(asker.proving.verdict(one.rows(call)))
        while not asker.notes:
            await asyncio.sleep(0.05)
        give_up_host(one)
        return await waiting

    assert asyncio.run(resume()).proven
    assert asker.notes[-1].data == {"host": "h1", "given_up": True}


@pytest.mark.req("K38")
def test_who_only_looks_does_not_wait_for_ever(one: OneWorker) -> None:
    call, _ = build(one)
    with pytest.raises(HostUnreachable, match="host h1 did not say"):
        Asker(one, give_up_seconds=0.1).verdicts(one.rows(call))


@pytest.mark.req("RULE26", "RULE47")
def test_an_answer_for_another_epoch_ends_the_asking(one: OneWorker) -> None:
    call, _ = build(one)
    asker = Asker(one)
    run_leases.let_go(one.database, one.lease, broke=False)
    one.farm.take(one.farm.new_scheduler())
    with answering(one), pytest.raises(RightLost):
        asker.verdicts(one.rows(call))


@pytest.mark.req("K38", "RULE27", "R12")
def test_the_rows_speak_for_a_host_that_was_given_up(one: OneWorker) -> None:
    call, worktree = build(one)
    held = one.open(prompt({"out": [{"exec": "printf x > x"}]}, {"http": 400, "message": "no"}), node="n2")
    one.work(held)
    (worktree / "made.txt").write_text("touched")
    give_up_host(one)
    asker = Asker(one)

    assert asker.verdicts(one.rows(call)) == [Verdict(True)]
    assert asyncio.run(asker.proving.held(one.rows(held))).reason == "host_lost"
    assert asked(one) == 0


@pytest.mark.req("K38", "RULE9", "O03")
def test_the_hub_speaks_for_the_work_of_a_host_that_was_given_up(one: OneWorker, tmp_path: Any) -> None:
    call, _ = build(one)
    give_up_host(one)
    git(one.hub, "update-ref", "-d", pending_ref(one.run_id, call.call_id))
    end = one.rows(call)[-1]
    lost = [replace(end, kind="commit", pending_tree=None, commit_sha="1" * 40)]
    landed = [replace(lost[0], commit_sha=one.base)]
    elsewhere = [replace(end, node_id="n9")]

    found = Asker(one).verdicts(one.rows(call), lost, landed, elsewhere)
    assert [verdict.reason for verdict in found] == ["work_gone", "commit_gone", None, "work_gone"]
    assert "the host of node n1 was given up" in str(found[0].sentence)
    one.hub.rename(tmp_path / "away")
    assert Asker(one).verdicts(one.rows(call), lost) == [Verdict(True)] * 2


@pytest.mark.req("RULE12", "R41")
def test_a_reading_call_that_was_held_does_not_go_on_where_its_thread_is_lost(one: OneWorker) -> None:
    held = one.open(prompt({"http": 400, "message": "no"}), node=None, role="architect")
    one.work(held)
    assert asyncio.run(Asker(one).proving.held(one.rows(held))).in_place
    # The same for a host of this name that came back with another home.
    one.farm.rows("update farm_hosts set home_id = 'another' where host = 'h1' returning host_id")
    for rows in (one.rows(held), [row for row in one.rows(held) if row.event in ("prepared", "placed", "held")]):
        assert asyncio.run(Asker(one).proving.held(rows)).reason == "host_lost"
    give_up_host(one)
    state = asyncio.run(Asker(one).proving.held(one.rows(held)))
    assert (state.in_place, state.reason) == (False, "host_lost")
    # Before it had a thread its directory alone was there.
    placed = [row for row in one.rows(held) if row.thread_id is None]
    assert not asyncio.run(Asker(one).proving.held([*placed, replace(one.rows(held)[-1], thread_id=None)])).in_place


@pytest.mark.req("K38", "O03", "P15")
def test_the_hub_speaks_for_a_merge_whose_host_was_given_up(one: OneWorker, tmp_path: Any) -> None:
    build(one)
    git(tmp_path, "clone", "-q", str(one.hub), "work")
    merged = commit_files(tmp_path / "work", {"a": "a"}, "merged")
    git(tmp_path / "work", "push", "-q", "origin", "HEAD:refs/heads/landed")
    commit_files(tmp_path / "work", {"b": "b"}, "later")
    git(tmp_path / "work", "push", "-q", "origin", "HEAD:refs/heads/landed")
    give_up_host(one)
    detail = {"ref": "refs/heads/landed"}
    row = make_call_row(kind="integrate", event="completed", host="h1", commit_sha=merged, detail=detail)

    assert Asker(one).verdicts([row]) == [Verdict(True)]
    git(one.hub, "update-ref", "refs/heads/landed", one.base)
    assert Asker(one).verdicts([row])[0].reason == "not_on_target"
    one.hub.rename(tmp_path / "away")
    assert Asker(one).verdicts([row])[0].reason == "hub_unreachable"

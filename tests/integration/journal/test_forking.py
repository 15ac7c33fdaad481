"""A fork's claims stand where its copied rows end, however far the other run went, and that one goes on meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.base.errors import UsageError
from shared.base.ids import new_run_id, request_id
from shared.journal import forking
from shared.journal.append import CallRows, RunRows
from shared.journal.forking import Renaming, fork
from shared.journal.read import load
from shared.journal.removals import removing
from shared.model.rows import CallRow, NewCallRow
from tests.journal_farm import Farm


@pytest.mark.req("RULE16", "K42")
def test_a_call_that_the_other_run_did_once_more_goes_on_in_the_fork_from_the_copied_attempt(farm: Farm) -> None:
    worker, lease = farm.new_worker(), farm.new_run()
    call = farm.open(lease)
    farm.writer.append(farm.claim(worker, call), NewCallRow("completed", {}, result=b"1"))
    copied = load(farm.database, lease.run_id)
    superseded = farm.ended(call, NewCallRow("superseded", {"reason": "superseded_by_resume"}))
    again = replace(call, attempt=1, request_id=request_id(lease.run_id, call.call_id, 1))
    farm.writer.submit(RunRows(lease, ended=(superseded,))).result()
    farm.writer.submit(RunRows(lease, opens=(again,))).result()
    farm.writer.append(farm.claim(worker, again), NewCallRow("completed", {}, result=b"2"))

    renaming = Renaming.plan(lease.run_id, new_run_id(), load(farm.database, lease.run_id))
    new = fork(farm.database, renaming, copied, "again", "main:9", {}, cleaned_at=None).run_id
    name = renaming.names[call.call_id]
    assert farm.rows("select attempt, state from call_claims where call_id = %(call)s", call=name) == [(0, "ended")]
    (ended,) = [row for row in load(farm.database, new) if isinstance(row, CallRow) and row.event == "completed"]
    assert (ended.attempt, ended.result) == (0, b"1")

    opened = replace(again, call_id=name, request_id=renaming.names[again.request_id])
    theirs = farm.take()
    taken_back = farm.ended(replace(call, call_id=name, request_id=ended.request_id), superseded.row)
    farm.writer.submit(RunRows(theirs, ended=(taken_back,))).result()
    farm.writer.submit(RunRows(theirs, opens=(opened,))).result()
    assert farm.claim(worker, opened).attempt == 1


@pytest.mark.req("RULE38", "K42")
def test_a_run_that_is_driven_goes_on_while_its_rows_are_copied(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = farm.new_run()
    held = farm.claim(farm.new_worker(), farm.open(lease))
    rows, copy, seqs = load(farm.database, lease.run_id), forking._call, []

    def append_and_copy(row: dict[str, Any], renaming: Renaming, seq: int) -> dict[str, Any]:
        seqs.append(farm.writer.submit(CallRows(held, (NewCallRow("placed"),))).result(3).seqs)
        return copy(row, renaming, seq)

    monkeypatch.setattr(forking, "_call", append_and_copy)
    renaming = Renaming.plan(lease.run_id, new_run_id(), rows)
    assert fork(farm.database, renaming, rows, "beside", "main:1", {}, cleaned_at=None).created and seqs


@pytest.mark.req("RULE39", "K42")
def test_a_fork_whose_run_was_cleaned_while_its_rows_were_copied_does_not_come_into_being(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = farm.new_run()
    farm.writer.append(farm.claim(farm.new_worker(), farm.open(lease)), NewCallRow("completed"))
    farm.writer.submit(RunRows(lease, finish=True)).result()
    rows, copy = load(farm.database, lease.run_id), forking._call

    def clean_and_copy(row: dict[str, Any], renaming: Renaming, seq: int) -> dict[str, Any]:
        with removing(farm.database, lease.run_id, "hub"):
            return copy(row, renaming, seq)

    monkeypatch.setattr(forking, "_call", clean_and_copy)
    renaming = Renaming.plan(lease.run_id, new_run_id(), rows)
    with pytest.raises(UsageError, match="was removed while it was looked at"):
        fork(farm.database, renaming, rows, "late", "main:1", {}, cleaned_at=None)
    assert farm.rows("select count(*) from flow_runs") == [(1,)]

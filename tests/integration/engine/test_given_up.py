"""A call that ended unknown on a host that was given up since: settled by the rule of lost calls, then done again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from scheduler.given_up import settle_given_up, was_given_up
from shared.base import ids
from shared.journal import loss, read
from tests.integration.engine.hands import Field, ended
from tests.integration.engine.test_suffix import LANES, live_places, work


@pytest.mark.req("R15", "R50", "RULE19")
def test_what_was_unknown_runs_again_elsewhere_when_it_was_taken_back_and_nothing_else_does(field: Field) -> None:
    run_id = field.submit(LANES)

    def lost(prepared):  # type: ignore[no-untyped-def]
        unknown = prepared.path == "main/1[a]" and prepared.position == 3
        return ended("outcome_unknown", "cancel") if unknown else work(prepared)

    field.drive(lost)
    rows = read.load_call(field.database, ids.call_id(run_id, "main/1[a]", 3))
    assert not was_given_up(field.database, "h1", rows)
    assert settle_given_up(field.database, "h1", rows)["reason"] == "not_recoverable", "the host may still look it up"
    loss.lose_host(field.database, "h1")
    assert was_given_up(field.database, "h1", rows)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: settle_given_up(field.database, "h1", rows), range(4)))
    assert {(one["proven"], one["status"], one["reason"]) for one in found} == {(True, "superseded", "host_lost")}
    assert [row.call_id for row in field.calls(run_id, "superseded")] == [rows[0].call_id]
    field.worker = field.new_worker(())
    field.resume(run_id)
    field.drive(work)
    assert field.end(run_id)["status"] == "completed"
    assert live_places(field, run_id, 1) == ["main/1[a]:3", "main:2"]
    done = read.load_call(field.database, rows[0].call_id)[-1]
    assert (done.event, done.attempt) == ("completed", 1)

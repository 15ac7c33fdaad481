"""What a run left is removed, or the run is opened again: never both at once, and neither is shut out for ever."""

from __future__ import annotations

from typing import Any

import pytest

from shared.base.errors import RightLost, UsageError
from shared.base.ids import new_run_id
from shared.journal import removals, runs
from shared.journal.append import RunLease, RunRows
from shared.journal.database import Database
from shared.journal.forking import Renaming, fork
from shared.journal.read import load
from shared.journal.removals import load_cleaners, removing
from tests.integration.journal.sessions import session, waiting
from tests.journal_farm import Farm

BEGIN = "update flow_runs set cleaned_at = now() where run_id = %(run)s and state = 'ended' returning run_id"
ENTER = """insert into run_cleaners (cleaner, run_id, place, held_until)
  values ('c', %(run)s, 'hub', now() + interval '1 minute')"""
OPEN = "update flow_runs set state = 'queued', resumes = resumes + 1 where run_id = %(run)s returning run_id"


def ended_run(farm: Farm) -> RunLease:
    lease = farm.new_run()
    farm.writer.submit(RunRows(lease, finish=True)).result()
    return lease


def reopen(farm: Farm, run: str) -> runs.Reopened | None:
    state = runs.run_state(farm.database, run)
    assert state is not None
    return runs.reopen(farm.database, state)


def fork_of(farm: Farm, run: str, key: str) -> str:
    rows, state = load(farm.database, run), runs.run_state(farm.database, run)
    assert state is not None
    plan = Renaming.plan(run, new_run_id(), rows)
    return fork(farm.database, plan, rows, key, "main:1", {}, cleaned_at=state.cleaned_at).run_id


@pytest.mark.req("RULE39")
def test_a_run_is_opened_again_when_its_removal_is_over_and_not_before(farm: Farm) -> None:
    run = ended_run(farm).run_id
    with removing(farm.database, run, "host h1", worker=farm.new_worker()) as go_on:
        assert reopen(farm, run) is None
        (cleaner,) = load_cleaners(farm.database, run)
        assert (cleaner.run_id, cleaner.place) == (run, "host h1") and "is being removed now" in cleaner.sentence()
        go_on()
    assert load_cleaners(farm.database, run) == [] and reopen(farm, run) is not None
    with pytest.raises(UsageError, match="has not ended"), removing(farm.database, run, "hub"):
        pytest.fail("nothing may be removed of a run that was opened again")


@pytest.mark.req("RULE39")
def test_a_run_of_which_something_was_removed_since_it_was_looked_at_is_not_opened(farm: Farm) -> None:
    run = ended_run(farm).run_id
    seen = runs.run_state(farm.database, run)
    assert seen is not None
    with removing(farm.database, run, "hub"):
        pass
    assert runs.reopen(farm.database, seen) is None
    assert reopen(farm, run) is not None


@pytest.mark.req("RULE39")
def test_of_a_removal_and_a_resume_at_the_same_moment_the_first_to_have_the_run_wins(farm: Farm) -> None:
    run = ended_run(farm).run_id
    with session(farm) as remover:
        remover.run(BEGIN, {"run": run})
        with waiting(remover, lambda: reopen(farm, run)) as opened:
            remover.run(ENTER, {"run": run})
            remover.commit()
            assert opened.result(20) is None
    farm.rows("delete from run_cleaners returning 1")

    def remove() -> str:
        try:
            with removing(farm.database, run, "hub"):
                return "removed"
        except UsageError:
            return "refused"

    with session(farm) as opener:
        opener.run(OPEN, {"run": run})
        with waiting(opener, remove) as removed:
            opener.commit()
            assert removed.result(20) == "refused"


@pytest.mark.req("RULE39")
def test_a_remover_that_died_keeps_nobody_from_the_run(farm: Farm) -> None:
    run, worker = ended_run(farm).run_id, farm.new_worker()
    left = [removing(farm.database, run, "hub"), removing(farm.database, run, "host h1", worker=worker)]
    for removal in left:
        removal.__enter__()
    farm.rows("update run_cleaners set held_until = now() where worker_id is null returning 1")
    assert reopen(farm, run) is None, "its worker lives"
    farm.rows("update farm_workers set state = 'dead' returning 1")
    assert reopen(farm, run) is None, "its lease ran out: it may be frozen in the middle of a step"
    assert load_cleaners(farm.database, run) != []
    farm.new_worker()
    assert load_cleaners(farm.database, run) == []
    assert reopen(farm, run) is not None, "the host's next incarnation is the proof that the worker is gone"
    assert farm.rows("select count(*) from run_cleaners") == [(0,)]


@pytest.mark.req("RULE39")
def test_a_remover_that_was_silent_for_too_long_removes_nothing_more(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.journal.removals._CONFIRM_SECONDS", 0.0)
    run = ended_run(farm).run_id
    with removing(farm.database, run, "hub") as go_on:
        farm.rows("update run_cleaners set held_until = now() + interval '20 seconds' returning 1")
        go_on()
        (cleaner,) = load_cleaners(farm.database, run)
        assert cleaner.seconds_left > 60, "each step is a sign of life"
        farm.rows("update run_cleaners set held_until = now() returning 1")
        assert reopen(farm, run) is not None
        with pytest.raises(RightLost, match="ran out"):
            go_on()
    dead = farm.new_worker("h2")
    farm.new_worker("h2")
    with pytest.raises(RightLost, match="declared dead"), removing(farm.database, run, "host h2", worker=dead):
        pytest.fail("a dead worker removes nothing")


@pytest.mark.req("RULE39")
def test_a_remover_that_froze_before_its_first_step_removes_nothing(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, clock, slept = removals._begin, removals._clock, [0.0]

    def begin_and_freeze(database: Database, values: dict[str, Any]) -> None:
        begin(database, values)
        farm.rows("update run_cleaners set held_until = now() returning 1")
        slept.append(400.0)

    monkeypatch.setattr(removals, "_begin", begin_and_freeze)
    monkeypatch.setattr(removals, "_clock", lambda: clock() + slept[-1])
    run = ended_run(farm).run_id
    with removing(farm.database, run, "hub") as go_on:
        assert reopen(farm, run) is not None
        with pytest.raises(RightLost, match="ran out"):
            go_on()


@pytest.mark.req("RULE39")
def test_a_clean_that_was_asked_for_before_a_resume_is_not_meant_for_the_run_after_it(farm: Farm) -> None:
    lease = ended_run(farm)
    assert reopen(farm, lease.run_id) is not None
    farm.writer.submit(RunRows(farm.take(), finish=True)).result()
    with pytest.raises(UsageError, match="resumed meanwhile"), removing(farm.database, lease.run_id, "h", resumes=0):
        pytest.fail("the run that was meant is no more")
    with removing(farm.database, lease.run_id, "h", resumes=1):
        pass


@pytest.mark.req("RULE39", "K42")
def test_no_fork_begins_while_something_goes_that_it_may_go_on_in(farm: Farm) -> None:
    run = ended_run(farm).run_id
    child = fork_of(farm, run, "child")
    farm.writer.submit(RunRows(farm.take(), finish=True)).result()
    rows = load(farm.database, run)
    with removing(farm.database, run, "host h1"):
        for key, of in (("again", run), ("grandchild", child)):
            with pytest.raises(UsageError, match=f"what run {run} left is being removed"):
                fork_of(farm, of, key)
        assert reopen(farm, child) is None, "it names the threads of the run it was forked from"
    with pytest.raises(UsageError, match="was removed while it was looked at"):
        fork(farm.database, Renaming.plan(run, new_run_id(), rows), rows, "late", "main:1", {}, cleaned_at=None)
    assert fork_of(farm, run, "again") and fork_of(farm, child, "grandchild")

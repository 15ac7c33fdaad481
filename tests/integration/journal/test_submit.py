"""Runs are stored once under their key, alone or many together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.base.errors import UsageError
from shared.journal import submit as submitting
from shared.journal.database import Database
from shared.journal.runs import list_runs, load_spec
from shared.journal.submit import NewRun, check_keys, submit, submit_many
from tests.journal_farm import SCRIPT, make_spec


def new_run(number: int, key: str | None) -> NewRun:
    return NewRun(make_spec(args=number), {"flow.py": SCRIPT}, key)


@pytest.mark.req("T51")
def test_many_runs_are_stored_in_groups_and_again_are_the_same(database: Database, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(submitting, "RUNS_A_TRANSACTION", 7)
    wanted = [new_run(number, f"k{number}") for number in range(20)]
    first = list(submit_many(database, wanted))
    assert all(run.created for run in first)
    again = list(submit_many(database, [*wanted, new_run(20, "k20")]))
    assert [run.run_id for run in again[:20]] == [run.run_id for run in first]
    assert [run.created for run in again] == [False] * 20 + [True]
    assert load_spec(database, first[3].run_id).args == 3


@pytest.mark.req("T51")
def test_equal_runs_under_one_key_in_one_group_are_one_run(database: Database):
    one, two = submit_many(database, [new_run(1, "k"), new_run(1, "k")])
    assert one.run_id == two.run_id and len(list_runs(database)) == 1


def test_runs_without_a_key_are_all_new(database: Database):
    assert len({run.run_id for run in submit_many(database, [new_run(1, None)] * 3)}) == 3


@pytest.mark.req("T51")
def test_a_key_with_other_content_refuses_its_whole_group_and_says_which_and_what(database: Database):
    submit(database, make_spec(args=1), {"flow.py": SCRIPT}, "taken")
    wanted = [new_run(5, "free"), new_run(2, "taken")]
    for attempt in (lambda: check_keys(database, wanted), lambda: list(submit_many(database, wanted))):
        with pytest.raises(UsageError, match=r"the key taken belongs to run r.* which has other args") as refused:
            attempt()
        assert (refused.value.facts["index"], refused.value.facts["differs"]) == (1, ["args"])
    assert len(list_runs(database)) == 1


@pytest.mark.req("T51")
def test_two_submitters_of_one_key_at_once_get_one_run(database: Database):
    with ThreadPoolExecutor(8) as pool:
        runs = list(
            pool.map(lambda _: submit(database, make_spec(), {"flow.py": SCRIPT}, "race"), range(16), timeout=30)
        )
    assert len({run.run_id for run in runs}) == 1 and sum(run.created for run in runs) == 1

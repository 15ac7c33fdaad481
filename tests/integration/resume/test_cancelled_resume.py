"""A cancel in the middle of a resume: one end, nothing sent behind it, and all that stood in the worktree is kept."""

from __future__ import annotations

import asyncio

import pytest

from shared.hub.refs import superseded_ref
from shared.journal import runs
from shared.journal.questions import open_questions
from shared.model.rows import CallRow, NewCallRow
from tests.integration.cli.conftest import Crw
from tests.integration.resume.house import House
from tests.integration.resume.test_gone_effects import ended_run, resume, sent, worktree_of
from tests.repositories import git
from workers.duties import StopFlags

pytestmark = pytest.mark.timeout(120)


def cancel(house: House, run_id: str) -> None:
    """The stop is in force, and worker and scheduler have heard of it."""
    assert runs.set_stop(house.database, run_id, "cancel") is not None
    StopFlags(house.work).poll()
    house.work.wakeups.tell(run_id)


def meddled_run(house: House) -> str:
    """A run that ended, with somebody's commitless work on a node that was set back."""
    run_id = ended_run(house)
    worktree = worktree_of(house, run_id, "a")
    git(worktree, "reset", "-q", "--hard", "HEAD~1")
    (worktree / "mine.txt").write_text("somebody's")
    return run_id


def check_cancelled_once(house: House, run_id: str) -> None:
    first, second = house.events(run_id, "finished")
    assert (first.data["status"], second.data["error_kind"]) == ("completed", "cancelled")
    assert house.rows(run_id)[-1].seq == second.seq


@pytest.mark.req("A17", "R24", "R29", "RULE28")
@pytest.mark.parametrize(
    "word", ["worktree_preserved", pytest.param("worktree_restored", marks=pytest.mark.slow), "fork_requested"]
)
def test_a_cancel_while_a_suffix_restores_and_forks_sends_no_turn_and_loses_nothing(
    house: House, crw: Crw, word: str
) -> None:
    run_id = meddled_run(house)
    result, worktree, before = house.end(run_id)["result"], worktree_of(house, run_id, "a"), sent(house)

    def stop_there(row: NewCallRow) -> None:
        if row.event == word:
            cancel(house, run_id)

    house.at_row = stop_there
    rows = resume(house, crw, run_id)
    check_cancelled_once(house, run_id)
    assert [row.detail["reason"] for row in rows if row.event == "held"] == ["cancel"]
    # What was announced before the stop may have left; no turn was.
    forks = 1 if word == "fork_requested" else 0
    assert sent(house) == {**before, "thread/fork": before["thread/fork"] + forks}
    assert not [row for row in rows if row.event == "turn_requested"]
    assert (worktree / "mine.txt").read_text() == "somebody's"
    kept = superseded_ref(run_id, 1, "main/1[a]", "a")
    assert git(house.hub, "show", f"{kept}:mine.txt") == "somebody's"
    house.at_row = lambda row: None
    resume(house, crw, run_id)
    assert house.end(run_id)["result"] == result


@pytest.mark.req("A17", "K38", "RULE26")
def test_a_cancel_while_a_resume_waits_for_its_host_ends_the_run_and_takes_nothing_back(house: House, crw: Crw) -> None:
    run_id = meddled_run(house)
    before = sent(house)
    house.silent.set()
    assert crw("flow", "resume", run_id, "--no-wait").status == 0

    async def during(_changes: object) -> None:
        while not open_questions(house.database, "h1"):
            await asyncio.sleep(0.02)
        await asyncio.to_thread(cancel, house, run_id)

    house.drive(during=during)
    check_cancelled_once(house, run_id)
    assert not house.calls(run_id, "superseded") and sent(house) == before
    behind = house.events(run_id, "finished")[0].seq
    assert not [row for row in house.rows(run_id) if isinstance(row, CallRow) and row.seq > behind]

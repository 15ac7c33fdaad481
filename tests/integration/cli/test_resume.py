"""`crw flow resume`, its plan and `explain`: what is refused before a row, what is shown, and what goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scheduler import guarding
from scheduler.client import Farm
from scheduler.resume.host_questions import HostQuestions
from shared.base.errors import UsageError
from shared.hub.machine import machine_label
from shared.hub.refs import guard_ref
from shared.journal import read, runs
from shared.journal.database import Database
from shared.journal.removals import removing
from shared.model.rows import CallRow, EventRow
from tests.integration.cli.conftest import SCRIPT, Crw
from tests.integration.engine.hands import Field, echo
from tests.integration.engine.test_suffix import work
from tests.integration.engine.verdicts import GONE, Verdicts
from tests.repositories import git, write_files
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def field(database: Database) -> Iterator[Field]:
    made = Field(database, [machine_label()])
    yield made
    made.close()


@pytest.fixture
def ended(crw: Crw, field: Field) -> str:
    """A run of the folder's script that has ended."""
    run = crw("flow", "start", "flow.py", "--repo", "repo", "--args", '{"goal": "g"}').out.split()[0]
    field.drive(echo)
    return run


def as_it_stands(database: Database, run: str) -> tuple[object, object]:
    return read.load(database, run), runs.run_state(database, run)


@pytest.mark.req("R52", "K44", "X13")
def test_an_edited_script_other_arguments_and_another_repository_are_refused_before_anything_is_written(
    crw: Crw, database: Database, ended: str, place: Path
):
    before = as_it_stands(database, ended)
    write_files(place, {"flow.py": SCRIPT + "# edited\n", "other/flow.py": SCRIPT, "other.py": SCRIPT})
    (place / "else").mkdir()
    git(place / "else", "init", "-q")
    for words, said in [
        (("flow.py",), "an edited script is no resume: flow.py was edited (sha-256"),
        (("other.py",), "the run's script is flow.py, not other.py"),
        (("--args", '{"goal": "h"}'), "these arguments are not the run's: 'goal' differs;"),
        (("--args", '{"aim": 1}'), "these arguments are not the run's: 'goal' is missing, 'aim' is new;"),
        (("--args", "[]"), "these arguments are not the run's: sha-256"),
        (("--repo", "else"), "the run is on"),
    ]:
        for more in ((), ("--plan",), ("--no-wait",)):
            refused = crw("flow", "resume", ended, *words, *more)
            assert refused.status == 2 and said in refused.err, (words, more, refused)
    assert as_it_stands(database, ended) == before
    same = ("other/flow.py", "--args", '{"goal": "g"}', "--repo", "repo")
    assert crw("flow", "resume", ended, *same, "--no-wait").status == 0


def test_a_run_whose_resume_no_scheduler_has_taken_up_is_not_shown_as_ended(crw: Crw, ended: str):
    assert "state       completed" in crw("flow", "show", ended).out
    assert crw("flow", "resume", ended, "--no-wait").status == 0
    shown = crw("flow", "show", ended).out
    assert "queued" in shown and "took" not in shown, shown
    (record,) = crw("flow", "show", ended, "--json").records
    assert (record["state"], record["status"]) == ("queued", None)


def test_a_plan_says_that_what_main_returns_is_no_result(crw: Crw, place: Path, field: Field):
    write_files(place, {"set.py": "async def main(flow, args):\n    await flow.clock()\n    return {1, 2}\n"})
    run = crw("flow", "start", "set.py", "--repo", "repo").out.split()[0]
    field.drive(echo)
    said = "main returned what is no JSON data: set is no JSON value"
    assert field.end(run)["message"] == said
    (plan,) = crw("flow", "resume", run, "--plan", "--json").records
    assert plan["end"] == said
    assert f"the script ends in an error on what is recorded: {said}" in crw("flow", "resume", run, "--plan").out


@pytest.mark.req("X02", "J24", "R01")
def test_a_resume_waits_for_the_end_and_its_status_is_the_run_s(crw: Crw, database: Database, ended: str, field: Field):
    def drive() -> None:
        wait_until(lambda: runs.run_state(database, ended).state == "queued", 30, "the run is queued")
        field.drive(echo)

    scheduler = threading.Thread(target=drive)
    scheduler.start()
    said = crw("flow", "resume", ended)
    scheduler.join(30)
    assert said.status == 0 and "do it" in said.out
    # Whoever follows it from its start is not told of an end in the middle.
    watched = crw("flow", "watch", ended, "--json")
    assert [row["kind"] for row in watched.records].count("finished") == 2


@pytest.mark.req("X13", "R52")
def test_of_two_who_resume_at_once_one_does_and_the_other_hears_who_has_the_run(
    crw: Crw, database: Database, ended: str, field: Field
):
    assert crw("flow", "resume", ended, "--no-wait").out == f"{ended}  resumed\n"
    second = crw("flow", "resume", ended, "--no-wait")
    assert second.status == 2 and "waits for a scheduler" in second.err and f"crw flow watch {ended}" in second.err
    field.take()
    third = crw("flow", "resume", ended)
    assert third.status == 2 and f"is being driven by scheduler {field.scheduler} on m" in third.err
    assert crw("flow", "resume", ended, "--plan").status == 2
    assert runs.run_state(database, ended).resumes == 1


@pytest.mark.req("X13", "R52", "R20")
def test_of_three_who_resume_at_the_same_moment_one_does_it_and_nothing_is_done_twice(
    crw: Crw, database: Database, ended: str, field: Field
):
    done = [row for row in read.load(database, ended) if isinstance(row, CallRow)]
    together = threading.Barrier(3)

    def resume(_number: int) -> int | str:
        with Farm(process="cli") as farm:
            farm.check_database()
            together.wait(30)
            try:
                return farm.resume(ended)
            except UsageError as error:
                return str(error)

    with ThreadPoolExecutor(3) as pool:
        said = list(pool.map(resume, range(3)))
    (after,) = [one for one in said if isinstance(one, int)]
    refused = [one for one in said if isinstance(one, str)]
    assert after == read.load(database, ended)[-1].seq and len(refused) == 2
    assert all(f"crw flow watch {ended}" in one for one in refused), refused
    field.drive(echo)
    rows = read.load(database, ended)
    assert [row for row in rows if isinstance(row, CallRow)] == done, "its one call replays"
    assert [row.kind for row in rows if isinstance(row, EventRow)].count("finished") == 2
    assert runs.run_state(database, ended).resumes == 1


@pytest.mark.req("RULE39")
def test_a_run_is_not_resumed_or_forked_while_what_it_left_is_being_removed(crw: Crw, database: Database, ended: str):
    with removing(database, ended, "host h1"):
        for arguments in (("resume", ended), ("fork", ended, "--at", "main:1")):
            said = crw("flow", *arguments)
            assert said.status == 2 and f"what run {ended} left is being removed now (host h1)" in said.err, said
    assert runs.run_state(database, ended).resumes == 0
    assert "cleaned" in crw("flow", "show", ended).out
    assert crw("flow", "resume", ended, "--no-wait").status == 0


@pytest.mark.req("RULE7", "RULE39")
def test_a_run_that_was_cleaned_is_resumed_once_its_hub_has_the_guard_of_the_resume(
    crw: Crw, database: Database, ended: str, place: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(guarding, "_HUB_PATIENCE_SECONDS", 0.0)
    with removing(database, ended, "hub"):
        pass
    before = as_it_stands(database, ended)
    away = (place / "repo").rename(place / "away")
    refused = crw("flow", "resume", ended, "--no-wait")
    assert refused.status == 2 and "the hub may not be done with that" in refused.err, refused
    assert as_it_stands(database, ended) == before
    away.rename(place / "repo")
    assert git(place / "repo", "rev-parse", "-q", "--verify", guard_ref(ended), check=False) == ""
    assert crw("flow", "resume", ended, "--no-wait").status == 0
    assert "moved by resume" in git(place / "repo", "cat-file", "commit", guard_ref(ended))


@pytest.mark.req("X02")
def test_a_run_that_is_being_cancelled_is_not_resumed_and_one_that_was_cancelled_is(
    crw: Crw, database: Database, field: Field
):
    run = crw("flow", "start", "flow.py", "--repo", "repo").out.split()[0]
    runs.set_stop(database, run, "cancel")
    refused = crw("flow", "resume", run, "--no-wait")
    assert refused.status == 2 and "is being cancelled" in refused.err
    crw("flow", "cancel", run)
    assert crw("flow", "resume", run, "--no-wait").status == 0
    field.drive(echo)
    assert crw("flow", "result", run).status == 0


def test_a_plan_and_an_explanation_write_nothing_and_say_what_a_resume_then_does(
    crw: Crw, database: Database, ended: str, field: Field, monkeypatch: pytest.MonkeyPatch
):
    before = as_it_stands(database, ended)
    nothing = crw("flow", "resume", ended, "--plan")
    assert nothing.status == 0 and "1 replay" in nothing.out and "costs nothing" in nothing.out
    assert "on a resume now: replays" in crw("flow", "explain", ended, "main:1").out
    verdicts = Verdicts({"main:1": GONE})
    monkeypatch.setattr("scheduler.preview.Proving", lambda *_given, **_named: verdicts)
    (plan,) = crw("flow", "resume", ended, "--plan", "--json").records
    assert (plan["live"], plan["tokens_last_time"], plan["positions"][0]["condition"]) == (1, 7, "e")
    said = crw("flow", "resume", ended, "--plan").out
    assert "1 run live" in said and "(e) its files are not what it left" in said and "7 tokens last time" in said
    explained = crw("flow", "explain", ended).out
    assert "runs live" in explained and "(e) its files are not what it left" in explained
    one = crw("flow", "explain", ended, "main:1").out
    assert "attempt 1: ran when the run began, ended completed, 7 tokens" in one
    assert "(e) what it did is not there any more: its files are not what it left" in one
    assert as_it_stands(database, ended) == before
    # And then it is done, and explained as what happened.
    crw("flow", "resume", ended, "--no-wait")
    field.proofs = verdicts
    field.drive(echo)
    done = crw("flow", "explain", ended, "main:1").out
    assert "taken back by resume 1:" in done and "attempt 2: ran in resume 1, ended completed" in done


WIDE = """
async def main(flow, args):
    async def lane(n):
        if n == "ops":
            return (await flow.crw.noop(n=n)).output
        build = await flow.agent(f"build {n}", role="executor", node=n)
        return (await build.call(f"fix {n}")).output
    await flow.parallel({n: lane(n) for n in ("a", "b", "ops")})
"""


@pytest.mark.req("K38", "RULE26", "RULE27")
def test_a_plan_names_a_silent_host_once_and_the_positions_that_wait_for_it(
    crw: Crw, database: Database, field: Field, monkeypatch: pytest.MonkeyPatch
):
    run = field.submit(WIDE)
    field.drive(work)
    before, asked, ask = as_it_stands(database, run), [], HostQuestions._ask

    async def counted(self: HostQuestions, host: str) -> object:
        asked.append(host)
        return await ask(self, host)

    monkeypatch.setattr(HostQuestions, "_ask", counted)
    (plan,) = crw("flow", "resume", run, "--plan", "--patience", "0.3", "--json").records
    decisions = {one["position"]: one["decision"] for one in plan["positions"]}
    assert decisions == {"main/1[a]:1": "waits", "main/1[b]:1": "waits", "main/1[ops]:1": "replay"}
    assert (plan["waits"], plan["replay"], plan["end"]) == (2, 1, "goes_on")
    waiting = [one for one in plan["positions"] if one["decision"] == "waits"]
    assert {one["sentence"] for one in waiting} == {"host h1 did not say within 0.3 s what is still there"}
    assert {one["node"] for one in waiting} == {"a", "b"} and asked == ["h1"]
    said = crw("flow", "resume", run, "--plan", "--patience", "0.3").out
    assert "2 wait for a host" in said and "host h1 did not say" in said
    assert as_it_stands(database, run) == before


def test_a_place_at_which_nothing_is_recorded_is_refused_with_the_list_to_look_at(crw: Crw, ended: str):
    refused = crw("flow", "explain", ended, "main:9")
    assert refused.status == 2 and f"crw flow explain {ended} --json" in refused.err
    (record,) = crw("flow", "explain", ended, "--json").records
    assert record["position"] == "main:1" and record["resume"]["decision"] == "replay"

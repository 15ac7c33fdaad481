"""Looking at runs: lists, calls, transcripts, following, results, cancelling."""

from __future__ import annotations

import json
import threading
import time

import pytest

from deploy.embedded import Postgres
from scheduler.client import Farm
from shared.base.canonical import storable
from shared.base.errors import StillRunning
from shared.broker.wakeups import Wakeups
from shared.journal import artifacts, serving
from shared.journal.append import RunRows
from shared.model.rows import NewCallRow, NewEventRow
from tests.integration.cli.conftest import Crw
from tests.journal_farm import Farm as JournalFarm
from tests.services import run_sql


def begun(journal: JournalFarm):
    """A run with a phase, an ended call with a transcript, and an open one."""
    lease = journal.new_run()
    events = (NewEventRow("started", {}), NewEventRow("phase", {"name": "build"}))
    journal.writer.submit(RunRows(lease, events=events)).result()
    worker = journal.new_worker("h1")
    asked = {"prompt": "hidden", "schema": {"type": "object"}, "pair": ["m", "low"]}
    prepared = NewCallRow("prepared", asked, role="executor", label="build it")
    opened = journal.open(lease, node="core", kind="agent", effect="executor", prepared=prepared)
    claim = journal.claim(worker, opened)
    entries = [{"kind": "input", "text": "do it"}, {"kind": "message", "phase": "final_answer", "text": "well done"}]
    transcript = artifacts.put(journal.database, storable(entries).encode(), "application/json")
    journal.writer.append(claim, NewCallRow("turn_requested", {}))
    journal.writer.append(
        claim,
        NewCallRow("turn_ended", {"turn": "t1", "status": "completed", "transcript": transcript}, turn_id="t1"),
        NewCallRow("completed", {}, tokens=1500, result=b'{"files": ["a.py"]}'),
    )
    journal.open(lease, kind="verify")
    return lease, opened


def end(journal: JournalFarm, lease, **data) -> None:
    journal.writer.submit(RunRows(lease, withdraw=True)).result()
    row = NewEventRow("finished", {"status": "completed", "result": None, **data})
    journal.writer.submit(RunRows(lease, events=(row,), finish=True)).result()


@pytest.mark.req("X08")
def test_ps_lists_open_runs_with_phase_calls_and_tokens(crw: Crw, journal: JournalFarm):
    lease, _ = begun(journal)
    (record,) = crw("flow", "ps", "--json").records
    assert (record["run"], record["state"], record["phase"]) == (lease.run_id, "running", "build")
    assert (record["done"], record["open"], record["tokens"]) == (1, 1, 1500)
    assert lease.run_id in crw("flow", "ps").out
    end(journal, lease)
    assert "no open runs" in crw("flow", "ps").out
    assert crw("flow", "ps", "--all", "--json").records[0]["status"] == "completed"


@pytest.mark.req("X08", "J39")
def test_show_run_says_what_each_open_call_waits_for(crw: Crw, journal: JournalFarm):
    lease, opened = begun(journal)
    text = crw("flow", "show", lease.run_id).out
    assert "a free worker" in text and "executor" in text and "build it" in text
    (record,) = crw("flow", "show", lease.run_id, "--json").records
    ended, waiting = record["calls"]
    assert (ended["call"], ended["state"], ended["tokens"], ended["host"]) == (opened.call_id, "completed", 1500, "h1")
    assert waiting["waits_for"] == "a free worker"


@pytest.mark.req("X08")
def test_show_call_gives_facts_rows_transcript_and_output(crw: Crw, journal: JournalFarm):
    _, opened = begun(journal)
    text = crw("flow", "show", opened.call_id).out
    for words in ("turn_requested", "asked:\n    do it", "answered:\n    well done", '"a.py"'):
        assert words in text
    (record,) = crw("flow", "show", opened.call_id, "--json").records
    assert record["turns"][0]["entries"][1]["text"] == "well done"
    assert record["output"] == {"files": ["a.py"]} and len(record["rows"]) == 4


def test_show_refuses_what_is_neither_run_nor_call(crw: Crw):
    for what in ("core", "raaaaaaaaaaaa", "c" + "a" * 24):
        said = crw("flow", "show", what)
        assert said.status == 2 and said.err.startswith("crw: "), said


@pytest.mark.req("X01")
def test_result_prints_what_main_returned_or_why_there_is_none(crw: Crw, journal: JournalFarm):
    lease, _ = begun(journal)
    assert crw("flow", "result", lease.run_id).status == 2
    end(journal, lease, result={"commit": "abc"})
    said = crw("flow", "result", lease.run_id)
    assert said.status == 0 and json.loads(said.out) == {"commit": "abc"}
    failed, _ = begun(journal)
    end(journal, failed, status="script_error", error_kind="script", message="ValueError: no", traceback="Traceback…")
    said = crw("flow", "result", failed.run_id)
    assert (said.status, said.out) == (1, "") and "ValueError: no" in said.err and "Traceback…" in said.err
    (record,) = crw("flow", "result", failed.run_id, "--json").records
    assert (record["status"], record["error_kind"], record["result"]) == ("script_error", "script", None)


@pytest.mark.req("X08", "J40", "J41", "RULE48")
def test_watch_delivers_every_row_once_also_the_ones_that_come_while_it_waits(crw: Crw, journal: JournalFarm):
    lease, _ = begun(journal)

    def go_on() -> None:
        for number in range(20):
            journal.writer.submit(RunRows(lease, events=(NewEventRow("log", {"message": f"n{number}"}),))).result()
            time.sleep(0.02)
        end(journal, lease, result=1)

    thread = threading.Thread(target=go_on)
    thread.start()
    said = crw("flow", "watch", lease.run_id, "--json")
    thread.join()
    seqs = [record["seq"] for record in said.records]
    assert said.status == 0 and seqs == list(range(1, len(seqs) + 1))
    assert said.records[-1]["kind"] == "finished"
    after = crw("flow", "watch", lease.run_id, "--json", "--after", "5").records
    assert [record["seq"] for record in after] == seqs[5:]
    assert crw("flow", "watch", lease.run_id, "--after", str(seqs[-1])).status == 0
    plain = crw("flow", "watch", lease.run_id).out
    assert "== build ==" in plain and "n19" in plain


@pytest.mark.req("RULE48")
def test_a_wakeup_ends_a_wait_long_before_the_poll(place, journal: JournalFarm, valkey, monkeypatch):
    monkeypatch.setenv("CRW_POLL_SECONDS", "60")
    lease, _ = begun(journal)
    wakeups = Wakeups(valkey.url)

    def end_and_tell() -> None:
        time.sleep(0.5)
        end(journal, lease, result=7)
        wakeups.tell(lease.run_id)

    thread = threading.Thread(target=end_and_tell)
    with Farm() as farm:
        with pytest.raises(StillRunning):
            farm.wait(lease.run_id, timeout=0.1)
        thread.start()
        assert farm.wait(lease.run_id, timeout=20).result == 7
        assert farm.result(lease.run_id) == 7
        assert [row.seq for row in farm.rows(lease.run_id, after=3)][:2] == [4, 5]
    thread.join()
    wakeups.close()


def test_host_ls_shows_who_lives_and_what_they_do(crw: Crw, journal: JournalFarm):
    assert "no host has registered" in crw("host", "ls").out
    begun(journal)
    (record,) = crw("host", "ls", "--json").records
    assert (record["host"], record["state"], record["alive"], record["slots"]) == ("h1", "up", True, 4)
    assert record["beat_age_seconds"] < 60
    assert crw("host", "ls").out.split("\n")[1].startswith("h1")


@pytest.mark.req("DEF16")
def test_host_ls_shows_the_app_server_and_what_the_account_has_left(crw: Crw, journal: JournalFarm):
    begun(journal)
    assert "SERVER" not in crw("host", "ls").out
    (worker,) = journal.rows("select worker_id from farm_workers")[0]
    serving.generation_began(journal.database, "h1", worker, "boot", serving.Began("g1", 7, "1", "/codex", "0.163.0"))
    serving.limits_seen(journal.database, "h1", [serving.Limit("primary", 61.0, 300, 4102444800.0)])
    (record,) = crw("host", "ls", "--json").records
    assert (record["app_server"]["generation"], record["app_server"]["up"]) == ("g1", True)
    assert (record["limits"][0]["used_percent"], record["limits"][0]["window_minutes"]) == (61.0, 300)
    said = crw("host", "ls").out
    assert "up 0s" in said and "61%, resets in" in said


def test_doctor_finds_the_services_well_and_names_what_is_not(crw: Crw, monkeypatch: pytest.MonkeyPatch):
    checks = {check["name"]: check for check in crw("doctor", "--json").records[0]["checks"]}
    assert {checks[name]["state"] for name in ("database", "schema", "durability", "clock", "broker")} == {"ok"}
    monkeypatch.setenv("CRW_BROKER_URL", "redis://127.0.0.1:9/0")
    said = crw("doctor")
    assert said.status == 1 and "FAIL  broker" in said.out and "mend: start Redis" in said.out
    monkeypatch.setenv("CRW_CONFIG", "/no/such/file")
    assert crw("doctor").status == 2


def test_db_upgrade_makes_the_schema_and_says_its_version(crw: Crw, postgres: Postgres, monkeypatch):
    run_sql(postgres, "create database upgraded_by_hand")
    monkeypatch.setenv("CRW_DATABASE_URL", postgres.database_url("upgraded_by_hand"))
    assert "run `crw db upgrade`" in crw("flow", "ps").err
    assert crw("db", "upgrade").status == 0
    assert crw("db", "upgrade", "--json").records[0]["schema_version"] > 0
    assert "no open runs" in crw("flow", "ps").out

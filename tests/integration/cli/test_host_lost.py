"""`crw host lost`: it asks first, takes everything from the host, and shuts its pushes out before it says so."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from scheduler import guarding
from shared.hub.refs import guard_ref
from shared.journal import roster
from shared.journal.append import RunLease
from shared.journal.database import Database
from shared.model.rows import NewCallRow
from tests.integration.cli.conftest import Crw
from tests.journal_farm import Farm
from tests.repositories import git


def push_under_way(journal: Farm, hub: Path) -> RunLease:
    """A run whose integrate has announced a push from host h1."""
    worker, lease = journal.new_worker("h1"), journal.new_run(hub=str(hub))
    claim = journal.claim(worker, journal.open(lease, kind="integrate"))
    journal.writer.append(claim, NewCallRow("push_requested", {"ref": "refs/heads/x", "guard": None}))
    return lease


def state_of(database: Database, host: str) -> str:
    return next(one.state for one in roster.list_hosts(database) if one.host == host)


@pytest.mark.req("RULE7", "RULE27")
def test_the_guard_has_moved_when_the_host_is_reported_lost(crw: Crw, place: Path, journal: Farm, database: Database):
    lease = push_under_way(journal, place / "repo")
    said = crw("host", "lost", "h1", "--yes", "--json")
    (record,) = said.records
    assert (said.status, record["state"], len(record["lost"]), record["runs"]) == (0, "lost", 1, [lease.run_id])
    assert git(place / "repo", "rev-parse", guard_ref(lease.run_id))
    assert state_of(database, "h1") == "lost"
    assert "lost" in crw("host", "ls").out


@pytest.mark.req("RULE7")
def test_a_guard_that_cannot_be_moved_is_said_and_the_status_is_1(
    crw: Crw, place: Path, journal: Farm, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(guarding, "_HUB_PATIENCE_SECONDS", 0.1)
    lease = push_under_way(journal, place / "gone")
    said = crw("host", "lost", "h1", "--yes")
    assert said.status == 1 and f"run {lease.run_id}: the guard on the hub could not be moved" in said.out


def test_it_asks_and_a_no_changes_nothing(
    crw: Crw, place: Path, journal: Farm, database: Database, monkeypatch: pytest.MonkeyPatch
):
    push_under_way(journal, place / "repo")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    said = crw("host", "lost", "h1")
    assert said.status == 1 and "1 calls running" in said.err and "its worker lives" in said.err
    assert state_of(database, "h1") == "up"


def test_where_nobody_can_answer_it_says_what_to_type(
    crw: Crw, journal: Farm, database: Database, monkeypatch: pytest.MonkeyPatch
):
    journal.new_worker("h1")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    said = crw("host", "lost", "h1")
    assert said.status == 2 and "nobody is there to answer, and host h1 stays; give it up with --yes" in said.err
    assert state_of(database, "h1") == "up"


@pytest.mark.req("K71")
def test_a_host_that_nobody_knows_is_refused_with_those_there_are(crw: Crw, journal: Farm):
    journal.new_worker("h1")
    said = crw("host", "lost", "h9", "--yes")
    assert said.status == 2 and "there is no host h9; the farm knows: h1" in said.err


@pytest.mark.req("RULE43")
def test_a_drained_host_says_what_it_has_left_and_undrain_takes_it_back(crw: Crw, journal: Farm, database: Database):
    worker = journal.new_worker("h1")
    journal.claim(worker, journal.open(journal.new_run(), node="n"))
    (record,) = crw("host", "drain", "h1", "--json").records
    assert (record["state"], record["changed"], record["running"], record["nodes"]) == ("draining", True, 1, 1)
    said = crw("host", "drain", "h1", "--wait", "0.1")
    assert said.status == 1 and "was draining already; it has 1 running, 1 nodes" in said.out
    assert "draining" in crw("host", "ls").out
    assert crw("host", "undrain", "h1").status == 0 and state_of(database, "h1") == "up"
    assert crw("host", "drain", "h9").status == 2
    for command in ("drain", "undrain", "lost"):
        said = crw("host", command, "")
        assert said.status == 2 and said.err.strip().endswith("'' is no host's name; 'crw host ls' lists the hosts")

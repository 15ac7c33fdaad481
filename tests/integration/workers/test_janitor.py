"""What runs left on a host and on the hub goes some days after their end, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shared.hub.refs import pending_ref, read_refs, run_namespace
from shared.journal import roster, run_leases, runs, serving
from shared.journal.append import JournalWriter, RunLease, RunRows
from shared.journal.database import Database
from shared.model.spec import RunSpec
from tests.journal_farm import Farm
from tests.repositories import git, make_bare_hub
from workers import janitor
from workers.janitor import Janitor, disk_use
from workers.worktrees.allocator import run_directory
from workers.worktrees.mirror import Mirrors


@pytest.fixture
def farm(fresh_database: str) -> Iterator[Farm]:
    database = Database(fresh_database, process="test")
    writer = JournalWriter(database, host="h1")
    yield Farm(database, writer)
    writer.close()
    database.close()


class Host:
    """A worker as far as the janitor knows one."""

    def __init__(self, farm: Farm, directory: Path, days: float) -> None:
        self.state = directory / "state"
        self.mirrors = Mirrors(self.state)
        self.hub = make_bare_hub(directory / "hub.git")
        self.farm = farm
        worker: Any = SimpleNamespace(
            settings=SimpleNamespace(retention_days=days, state_dir=self.state), mirrors=self.mirrors, host="h1",
            database=farm.database, load_spec=self.load_spec,
            incarnation=SimpleNamespace(worker_id=farm.new_worker("h1")),
        )  # fmt: skip
        self.janitor = Janitor(worker)
        self.resumes: str | None = None

    def load_spec(self, run: str) -> RunSpec:
        """The spec of a run; meanwhile somebody resumes another one."""
        if self.resumes not in (None, run):
            state = runs.run_state(self.farm.database, str(self.resumes))
            assert state is not None
            runs.reopen(self.farm.database, state)
        return runs.load_spec(self.farm.database, run)

    def run_with_leftovers(self) -> RunLease:
        """A run with a directory, a ref in the mirror and a ref on the hub."""
        lease = self.farm.new_run(hub=str(self.hub), base=git(self.hub, "rev-parse", "main"))
        ref = pending_ref(lease.run_id, "c")
        git(self.hub, "update-ref", ref, "main")
        mirror = self.mirrors.ensure(str(self.hub), lease.run_id)
        git(mirror, "fetch", "-q", str(self.hub), f"{ref}:{ref}")
        (run_directory(self.state, lease.run_id) / "calls" / "c").mkdir(parents=True)
        (run_directory(self.state, lease.run_id) / "calls" / "c" / "log").write_bytes(b"x" * 100_000)
        return lease

    def left_of(self, lease: RunLease) -> list[bool]:
        """Whether directory, mirror's ref and hub's ref are there."""
        names = git(self.mirrors.path_of(str(self.hub)), "for-each-ref", run_namespace(lease.run_id))
        on_hub = read_refs(self.mirrors.git, str(self.hub), run_namespace(lease.run_id) + "/*")
        return [run_directory(self.state, lease.run_id).is_dir(), bool(names), bool(on_hub)]


@pytest.mark.req("RULE39")
def test_only_what_ended_long_ago_goes_from_host_mirror_and_hub(farm: Farm, tmp_path: Path) -> None:
    host = Host(farm, tmp_path, 14)
    old, fresh, running = (host.run_with_leftovers() for _ in range(3))
    stranger = run_directory(host.state, "raaaaaaaaaaaa")
    stranger.mkdir()
    for lease in (old, fresh):
        farm.writer.submit(RunRows(lease, finish=True)).result()
    ago = "update flow_runs set ended_at = now() - interval '15 days' where run_id = %(run)s returning 1"
    farm.rows(ago, run=old.run_id)
    assert host.janitor.pass_once() == 2, "its part here, and the hub's"
    assert host.left_of(old) == [False, False, False]
    assert host.left_of(fresh) == host.left_of(running) == [True, True, True]
    assert stranger.is_dir(), "a run that this journal does not know is not its own"
    assert host.janitor.pass_once() == 0
    assert git(host.hub, "rev-parse", "main")


@pytest.mark.req("RULE39")
def test_the_host_s_mirrors_are_looked_after_also_where_nothing_is_ever_removed(
    farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Mirrors] = []
    monkeypatch.setattr(janitor, "maintain_mirrors", seen.append)
    host = Host(farm, tmp_path, 0)
    host.janitor.pass_once()
    assert seen == [host.mirrors]


@pytest.mark.req("DEF16", "RULE39")
def test_app_servers_that_ended_long_ago_are_forgotten(farm: Farm, tmp_path: Path) -> None:
    host = Host(farm, tmp_path, 14)
    worker = str(farm.rows("select worker_id from farm_workers")[0][0])
    for name in ("old", "fresh", "up"):
        serving.generation_began(farm.database, "h1", worker, "boot", serving.Began(name, 7, "1", "/codex", "0.163.0"))
    for name in ("old", "fresh"):
        serving.generation_ended(farm.database, name, "stopped")
    farm.rows(
        "update server_generations set ended_at = now() - interval '15 days' where generation = 'old' returning 1"
    )
    host.janitor.pass_once()
    assert sorted(farm.rows("select generation from server_generations")) == [("fresh",), ("up",)]


@pytest.mark.req("RULE39")
def test_a_run_that_is_resumed_while_others_are_cleaned_keeps_what_it_has(farm: Farm, tmp_path: Path) -> None:
    host = Host(farm, tmp_path, 14)
    leases = sorted((host.run_with_leftovers() for _ in range(2)), key=lambda lease: lease.run_id)
    for number, lease in enumerate(leases):
        farm.writer.submit(RunRows(lease, finish=True)).result()
        farm.rows(
            f"update flow_runs set ended_at = now() - interval '{20 - number} days' where run_id = %(run)s returning 1",
            run=lease.run_id,
        )
    first, second = leases
    host.resumes = second.run_id
    host.janitor.pass_once()
    assert host.left_of(first) == [False, False, False] and host.left_of(second) == [True, True, True]


@pytest.mark.req("RULE39")
@pytest.mark.parametrize("step", ["clean_host", "delete_run_refs"])
def test_a_run_is_not_opened_again_while_something_of_it_goes(
    farm: Farm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    host = Host(farm, tmp_path, 14)
    lease = host.run_with_leftovers()
    farm.writer.submit(RunRows(lease, finish=True)).result()
    farm.rows("update flow_runs set ended_at = now() - interval '15 days' returning 1")
    remove = getattr(janitor, step)
    opened = []

    def remove_slowly(*given: Any) -> Any:
        opened.append(reopen(farm, lease))
        return remove(*given)

    monkeypatch.setattr(janitor, step, remove_slowly)
    assert host.janitor.pass_once() == 2 and opened == [None]
    again = reopen(farm, lease)
    assert again is not None and again.run_id == lease.run_id
    state = runs.run_state(farm.database, lease.run_id)
    assert state is not None and state.cleaned_at is not None, "whoever goes on with it is told"


@pytest.mark.req("RULE39")
def test_retention_takes_the_run_of_a_month_ago_and_no_run_that_was_resumed_since(farm: Farm, tmp_path: Path) -> None:
    host = Host(farm, tmp_path, 14)
    old, going_on, again, long_again = leases = [host.run_with_leftovers() for _ in range(4)]
    for lease in leases:
        farm.writer.submit(RunRows(lease, finish=True)).result()
    # The clock of the rows, not the machine's: all of it was a month ago.
    for table in ("flow_events", "flow_calls"):
        farm.rows(f"update {table} set written_at = written_at - interval '30 days' returning 1")
    month = "submitted_at = submitted_at - interval '30 days', ended_at = ended_at - interval '30 days'"
    farm.rows(f"update flow_runs set {month}, hub_cleaned_at = now() - interval '30 days' returning 1")
    farm.rows("update flow_runs set hub_cleaned_at = null where run_id = %(run)s returning 1", run=old.run_id)
    for lease in (going_on, again, long_again):
        assert reopen(farm, lease) is not None
    leases = {taken.run_id: taken.lease for taken in run_leases.take(farm.database, farm.scheduler, 5)}
    for lease in (again, long_again):
        farm.writer.submit(RunRows(leases[lease.run_id], finish=True)).result()
    later = "update flow_runs set ended_at = now() - interval '20 days' where run_id = %(run)s returning 1"
    farm.rows(later, run=long_again.run_id)
    assert host.janitor.pass_once() == 4, (
        "two runs, here and on the hub: also on one that was cleaned before its resume"
    )
    assert host.left_of(old) == host.left_of(long_again) == [False, False, False]
    assert host.left_of(going_on) == host.left_of(again) == [True, True, True]
    assert reopen(farm, old) is not None, "its rows stay, and with them it can be resumed"


def reopen(farm: Farm, lease: RunLease) -> runs.Reopened | None:
    state = runs.run_state(farm.database, lease.run_id)
    assert state is not None
    return runs.reopen(farm.database, state)


@pytest.mark.req("RULE39")
def test_with_no_days_nothing_goes_and_the_disk_use_is_said(farm: Farm, tmp_path: Path) -> None:
    host = Host(farm, tmp_path, 0)
    lease = host.run_with_leftovers()
    farm.writer.submit(RunRows(lease, finish=True)).result()
    farm.rows("update flow_runs set ended_at = now() - interval '99 days' returning 1")
    assert host.janitor.pass_once() == 0 and host.left_of(lease) == [True, True, True]
    (shown,) = roster.list_hosts(farm.database)
    assert shown.run_bytes == disk_use(host.state / "flow") and (shown.run_bytes or 0) >= 100_000


@pytest.mark.req("RULE39")
def test_a_mirror_fetches_branches_tags_and_the_refs_of_its_own_run_alone(tmp_path: Path) -> None:
    hub, mirrors = make_bare_hub(tmp_path / "hub.git"), Mirrors(tmp_path / "state")
    empty = git(hub, "mktree", input=b"")
    ours, theirs = (git(hub, "commit-tree", empty, "-m", name) for name in ("ours", "theirs"))
    git(hub, "tag", "v1", "main")
    git(hub, "update-ref", pending_ref("raaaaaaaaaaaa", "c"), ours)
    git(hub, "update-ref", pending_ref("rbbbbbbbbbbbb", "c"), theirs)
    mirror = mirrors.ensure(str(hub), "raaaaaaaaaaaa", [ours])
    names = git(mirror, "for-each-ref", "--format=%(refname)").split("\n")
    assert "refs/tags/v1" in names and pending_ref("raaaaaaaaaaaa", "c") in names
    assert not any("rbbbbbbbbbbbb" in name for name in names)

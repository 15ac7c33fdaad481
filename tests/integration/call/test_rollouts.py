"""The conversations of a run that ended long ago go from the Codex home, and no other run's."""

from __future__ import annotations

import pytest

from shared.base.ids import new_run_id
from shared.journal import read
from shared.journal.append import RunRows
from shared.journal.forking import Renaming, fork
from tests.integration.call.desk import DONE, OneWorker, prompt
from workers.janitor import Janitor
from workers.worktrees.allocator import run_directory

pytestmark = pytest.mark.timeout(120)


def end_long_ago(one: OneWorker, run_id: str) -> None:
    statement = "update flow_runs set state = 'ended', ended_at = now() - interval '15 days' where run_id = %(run)s"
    assert one.farm.rows(statement + " returning 1", run=run_id)


def kept(one: OneWorker) -> set[str]:
    return {file.stem for file in (one.settings.state_dir / "codex-home" / "sessions").glob("*.json")}


@pytest.mark.req("RULE39")
def test_threads_go_when_their_run_and_all_its_forks_ended_long_ago_and_no_other_run_s(one: OneWorker) -> None:
    old, janitor = one.run_id, Janitor(one.worker)
    threads = {one.run(prompt(DONE), role="reviewer", node=None).meta.thread_id for _ in range(2)}
    one.farm.writer.submit(RunRows(one.lease, finish=True)).result()
    one.lease = one.farm.new_run(hub=str(one.hub), base=one.base, roles=one.worker.load_spec(old).roles)
    other = one.run(prompt(DONE), role="reviewer", node=None).meta.thread_id
    rows = read.load(one.database, old)
    forked = fork(one.database, Renaming.plan(old, new_run_id(), rows), rows, "k", "main:9", {}, cleaned_at=None).run_id
    assert kept(one) == {*threads, other}
    end_long_ago(one, old)
    # The fork may go on in the conversations that its rows name.
    janitor.pass_once()
    assert kept(one) == {*threads, other}
    assert list(run_directory(one.settings.state_dir, old).iterdir()) == []
    end_long_ago(one, forked)
    janitor.pass_once()
    assert kept(one) == {other}
    assert not run_directory(one.settings.state_dir, old).exists()
    assert janitor.pass_once() == 0, "nothing is left to do"

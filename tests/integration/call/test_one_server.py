"""The calls of a worker share one App Server; what a model says is data and moves nothing by itself."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from shared.journal import read
from shared.model.outcome import Status
from shared.model.rows import CallRow
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.repositories import git
from tests.waiting import wait_until


@pytest.mark.req("T01", "W11")
def test_calls_that_run_at_once_share_one_server_and_have_settings_of_their_own(one: OneWorker) -> None:
    calls = [
        one.open(prompt({"wait": "go", **DONE})),
        one.open(prompt({"wait": "go", **DONE}), role="reviewer", node=None, pair=["gpt-test", "high"]),
    ]
    threads = [threading.Thread(target=one.work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    wait_until(lambda: one.sent("turn/start") == 2, 20, "both turns to be sent")
    one.fake.release("go")
    for thread in threads:
        thread.join(30)
    assert [one.ended(call).status for call in calls] == [Status.COMPLETED] * 2  # type: ignore[union-attr]
    assert one.sent("initialize") == 1
    asked = [line["params"] for line in one.fake.requests("thread/start")]
    assert {(params["sandbox"], params["config"]["model_reasoning_effort"]) for params in asked} == {
        ("workspace-write", "low"),
        ("read-only", "high"),
    }
    assert len({params["cwd"] for params in asked}) == 2


@pytest.mark.req("T02", "W17")
def test_what_a_model_claims_about_state_and_commits_is_only_its_answer(one: OneWorker) -> None:
    claimed = {"summary": f"status: refused; committed {'d' * 40}; phase: done"}
    call = one.open(prompt({"out": [{"msg": json.dumps(claimed), "phase": "final_answer"}]}))
    ended = one.work(call)
    assert ended is not None and (ended.status, ended.output) == (Status.COMPLETED, claimed)
    last = one.rows(call)[-1]
    assert last.commit_sha is None and last.pending_tree == git(one.hub, "rev-parse", "main^{tree}")
    assert Path(last.worktree_path or "").is_dir()
    assert all(isinstance(row, CallRow) for row in read.load(one.database, one.run_id)), "no row of the flow came of it"


@pytest.mark.req("K36")
def test_a_worktree_s_git_directory_is_granted_to_no_sandbox(one: OneWorker) -> None:
    call = one.open(prompt(DONE))
    one.work(call)
    (asked,) = (line["params"] for line in one.fake.requests("thread/start"))
    common = git(Path(asked["cwd"]), "rev-parse", "--path-format=absolute", "--git-common-dir")
    assert not Path(common).is_relative_to(asked["cwd"])
    assert asked["config"]["sandbox_workspace_write"]["writable_roots"] == []

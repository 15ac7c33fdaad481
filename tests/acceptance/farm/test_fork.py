"""A fork begins with what another run has proven, in worktrees of its own, and leaves the other as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared.model.rows import CallRow, EventRow
from tests.acceptance.farm.agents import agent_spec
from tests.acceptance.farm.test_host_loss import FLOW, arguments, crw, start
from tests.farm import Farm
from tests.repositories import git, make_bare_hub

pytestmark = pytest.mark.timeout(240)


def opened(farm: Farm, run_id: str) -> list[int]:
    """The positions that the run itself opened: behind its own first start."""
    rows = farm.rows(run_id)
    began = next(row.seq for row in rows if isinstance(row, EventRow) and row.kind == "started")
    return [row.position for row in rows if isinstance(row, CallRow) and row.event == "prepared" and row.seq > began]


@pytest.mark.slow
@pytest.mark.req("RULE16", "K42")
def test_the_prefix_replays_and_the_rest_runs_live_in_a_fork_of_the_conversation(farm: Farm, tmp_path: Path):
    hub = make_bare_hub(tmp_path / "hub.git")
    worker, fake = start(farm, tmp_path, "h1")
    farm.wait_up(farm.start_scheduler(), worker, deadline_seconds=60)
    first = farm.submit(FLOW, arguments(), **agent_spec(hub))
    result = farm.wait_finished(first, 60).data["result"]
    before = farm.rows(first)
    said = crw(farm, "flow", "fork", first, "--at", "main:3", "--key", "again", "--json")
    assert said.returncode == 0, said.stderr
    forked = json.loads(said.stdout)
    assert (forked["created"], forked["calls"], forked["from"]) == (True, 2, first)
    second = forked["run"]
    end = farm.wait_finished(second, 90)
    assert end.data["status"] == "completed", end.data
    assert end.data["result"] == result and opened(farm, second) == [3, 4, 5, 6]
    assert git(hub, "rev-parse", f"refs/heads/crw/{second}^{{tree}}") == result[2]
    assert {row.call_id for row in farm.call_rows(first)}.isdisjoint({row.call_id for row in farm.call_rows(second)})
    (conversation,) = farm.call_rows(second, "conversation")
    assert conversation.detail["rung"] == "fork"
    assert [row.worktree_kind for row in farm.call_rows(second, "placed")][-1] == "restore"
    assert len(fake.requests("thread/fork")) == 1
    farm.check_rows(second)
    assert farm.rows(first) == before, "the other run is as it was"
    again = json.loads(crw(farm, "flow", "fork", first, "--at", "main:3", "--key", "again", "--json").stdout)
    assert (again["run"], again["created"]) == (second, False)
    for at, words in (("main:9", "nothing recorded at main:9; it has main:1"), ("main", "no position")):
        refused = crw(farm, "flow", "fork", first, "--at", at)
        assert refused.returncode == 2 and words in refused.stderr
    refused = crw(farm, "flow", "fork", first, "--at", "main:3", "--key", "")
    assert refused.returncode == 2 and "a key has 1 to" in refused.stderr


@pytest.mark.slow
@pytest.mark.req("RULE16", "RULE39", "K42")
def test_a_fork_of_a_fork_runs_when_the_first_run_was_cleaned_and_the_cleaned_one_gives_what_it_has(
    farm: Farm, tmp_path: Path
):
    hub = make_bare_hub(tmp_path / "hub.git")
    worker, _ = start(farm, tmp_path, "h1")
    farm.wait_up(farm.start_scheduler(), worker, deadline_seconds=60)
    first = farm.submit(FLOW, arguments(), **agent_spec(hub))
    result = farm.wait_finished(first, 60).data["result"]

    def fork(of: str, at: str) -> dict[str, Any]:
        said = crw(farm, "flow", "fork", of, "--at", at, "--json")
        assert said.returncode == 0, said.stderr
        return dict(json.loads(said.stdout))

    second = fork(first, "main:3")["run"]
    farm.wait_finished(second, 90)
    cleaned = crw(farm, "flow", "clean", first)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert git(hub, "for-each-ref", f"refs/crw/flow/{first}") == ""
    # What the second has is its own, whatever it was made of.
    third = fork(second, "main:3")
    assert (third["calls"], len(third["cuts"])) == (2, 1), third
    end = farm.wait_finished(third["run"], 90)
    assert end.data["status"] == "completed" and end.data["result"] == result, end.data
    assert opened(farm, third["run"]) == [3, 4, 5, 6]
    farm.check_rows(third["run"])
    # The first has nothing left that a prefix could rest on.
    again = crw(farm, "flow", "fork", first, "--at", "main:3", "--json")
    assert again.returncode == 2, again
    assert f"what the prefix of run {first}, which was cleaned, rests on" in again.stderr

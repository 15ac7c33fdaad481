"""The ops in a real worker process, through journal and broker."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shared.broker.names import FARM_QUEUE
from shared.journal import artifacts, runs
from shared.model.outcome import CANCELLED
from shared.model.rows import CallRow
from tests.farm import Farm
from tests.integration.workers.scripted_run import ScriptedRun
from tests.repositories import commit_files, git, make_bare_hub
from tests.waiting import wait_until

END_SECONDS = 30


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    return make_bare_hub(tmp_path / "hub.git")


def spec(hub: Path) -> dict[str, Any]:
    return {"hub": str(hub), "base": git(hub, "rev-parse", "main")}


def head_of(run: ScriptedRun, hub: Path) -> str:
    work = hub.with_name(hub.name + "-work")
    head = commit_files(work, {"lane.txt": "x\n"})
    git(work, "push", "-q", str(hub), f"{head}:refs/crw/flow/{run.run_id}/commit/n/1")
    return head


def end_of(run: ScriptedRun, call: str) -> CallRow:
    words = ("completed", "refused", "held", "outcome_unknown")

    def ended() -> CallRow | None:
        rows = [row for row in run.farm.call_rows(run.run_id, *words) if row.call_id == call]
        return rows[-1] if rows else None

    return wait_until(ended, END_SECONDS, "the call's end")


class AtAnAwayHub:
    """A worker in the middle of a `verify` whose commit is on a hub that is away, and waits for that."""

    def __init__(self, farm: Farm, run: ScriptedRun, hub: Path) -> None:
        self.worker = farm.start_worker("h1")
        farm.wait_up(self.worker)
        head = head_of(run, hub)
        self._hub, self._away = hub, hub.rename(hub.with_name("away.git"))
        self.call = run.open(kind="verify", head=head, command="cat lane.txt")
        wait_until(lambda: self.worker.said("hub_unreachable"), END_SECONDS, "the worker to wait for the hub")

    def come_back(self) -> None:
        """The hub is there again."""
        self._away.rename(self._hub)


def test_an_op_whose_commit_is_on_a_hub_that_is_away_runs_when_it_is_back(farm: Farm, hub: Path) -> None:
    with closing(ScriptedRun(farm, **spec(hub))) as run:
        waiting = AtAnAwayHub(farm, run, hub)
        waiting.come_back()
        assert end_of(run, waiting.call).event == "completed"


@pytest.mark.req("RULE22")
def test_an_op_that_waits_for_its_hub_is_given_back_by_a_worker_that_stops(farm: Farm, hub: Path) -> None:
    with closing(ScriptedRun(farm, **spec(hub))) as run:
        waiting = AtAnAwayHub(farm, run, hub)
        waiting.worker.terminate()
        assert not farm.call_rows(run.run_id, "held"), "nobody asked the call to end"
        waiting.come_back()
        farm.wait_up(farm.start_worker("h1"))
        run.send_again(waiting.call, FARM_QUEUE)
        assert end_of(run, waiting.call).event == "completed"


def test_an_op_that_waits_for_its_hub_ends_as_cancelled_with_its_run(farm: Farm, hub: Path) -> None:
    with closing(ScriptedRun(farm, **spec(hub))) as run:
        waiting = AtAnAwayHub(farm, run, hub)
        runs.set_stop(farm.database, run.run_id, "cancel")
        assert end_of(run, waiting.call).detail["reason"] == CANCELLED


@pytest.mark.req("O01", "O02", "O15", "O17")
def test_a_verify_is_announced_run_and_its_log_kept(farm: Farm, hub: Path) -> None:
    farm.wait_up(farm.start_worker("h1"))
    with closing(ScriptedRun(farm, **spec(hub))) as run:
        head = head_of(run, hub)
        end = end_of(run, run.open(kind="verify", head=head, command="cat lane.txt; exit 1"))
        output = json.loads(end.result or b"")
        assert (end.event, output["passed"], output["ran"]) == ("completed", False, True)
        assert artifacts.load(farm.database, output["log_digest"]) == b"x\n"
        assert end.detail["head"] == head and end.detail["base"] == git(hub, "rev-parse", "main")
        assert [row.event for row in farm.call_rows(run.run_id)][:2] == ["prepared", "command_started"]


@pytest.mark.req("O21", "RULE8")
def test_an_integrate_killed_after_its_push_is_taken_up_by_the_next_worker_and_merges_once(
    farm: Farm, hub: Path
) -> None:
    doomed = farm.start_worker("h1", crash_at="after:push")
    farm.wait_up(doomed)
    with closing(ScriptedRun(farm, **spec(hub))) as run:
        call = run.open(kind="integrate", heads={"n": head_of(run, hub)})
        wait_until(lambda: not doomed.alive, END_SECONDS, "the worker's death")
        target = f"refs/heads/crw/{run.run_id}"
        pushed = git(hub, "rev-parse", target)
        farm.wait_up(farm.start_worker("h1"))
        end = end_of(run, call)
        assert end.event == "completed" and json.loads(end.result or b"")["commit"] == pushed
        assert git(hub, "rev-parse", target) == pushed
        assert len(farm.call_rows(run.run_id, "push_requested")) == 1

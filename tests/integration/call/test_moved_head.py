"""An executor that commits by itself: its row says where it left HEAD, and the hub has that commit."""

from __future__ import annotations

import pytest

from shared.hub.refs import stray_ref
from shared.model.outcome import Status
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.repositories import git

COMMITS = {
    "out": [{"exec": "echo made > made.txt && git add -A && git -c user.name=m -c user.email=m@m commit -qm own"}]
}


@pytest.mark.req("P14", "K10")
def test_a_head_that_the_executor_moved_is_recorded_and_kept(one: OneWorker) -> None:
    call = one.open(prompt(COMMITS, DONE))

    ended = one.work(call)

    assert ended is not None and ended.status is Status.COMPLETED
    placed = next(row for row in one.rows(call) if row.event == "placed")
    end = one.rows(call)[-1]
    head = git(placed.worktree_path, "rev-parse", "HEAD")  # type: ignore[arg-type]
    ref = stray_ref(one.run_id, call.call_id)
    assert end.detail["executor_head_moved"] == {"start": one.base, "head": head, "ref": ref}
    assert git(one.hub, "rev-parse", ref) == head != one.base
    assert git(one.hub, "rev-parse", f"{head}^{{tree}}") == end.pending_tree


@pytest.mark.req("P14")
def test_a_head_that_stayed_is_not_mentioned(one: OneWorker) -> None:
    call = one.open(prompt({"out": [{"exec": "echo made > made.txt"}]}, DONE))

    one.work(call)

    assert "executor_head_moved" not in one.rows(call)[-1].detail

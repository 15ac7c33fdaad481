"""A worker is killed between an op's effect and its row: the next try finds the effect, under the same request."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from shared.base import crashpoint
from tests.integration.ops.test_integrate import TARGET, Hub
from tests.repositories import git
from tests.waiting import wait_until
from workers.ops.commit import Commit
from workers.ops.verify import Verify


def killed_at(name: str, work: Callable[[], Any]) -> bool:
    """Do `work` in a child process that dies at the crash point; whether it did."""
    child = os.fork()
    if child == 0:
        crashpoint.arm({"CRW_CRASH_AT": name})
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "h1")


@pytest.mark.req("RULE8", "O11")
@pytest.mark.parametrize("point", ["after:push", "after:head"])
def test_a_commit_that_was_killed_is_found_again(hub: Hub, point: str) -> None:
    worktree = hub.turn(1, {"new.txt": "new\n"})
    arguments = {"node": "n", "message": "a change"}
    assert killed_at(point, lambda: hub.run_op(Commit(), 2, arguments, node="n"))
    left = git(hub.hub, "for-each-ref")
    output = hub.run_op(Commit(), 2, arguments, node="n", fence=2).output
    assert git(worktree, "rev-parse", "HEAD") == output["commit"] and git(worktree, "status", "--porcelain") == ""
    assert git(hub.hub, "for-each-ref") == left and output["commit"] in left


@pytest.mark.req("RULE8", "O21")
def test_an_integrate_that_was_killed_after_its_push_is_found_again(hub: Hub) -> None:
    heads = {"a": hub.lane("a", {"a": "a"}), "b": hub.lane("b", {"b": "b"})}
    assert killed_at("after:push", lambda: hub.integrate(1, heads))
    left = git(hub.hub, "for-each-ref")
    output = hub.integrate(1, heads, fence=2)
    assert output["merged"] and output["commit"] == hub.target() and git(hub.hub, "for-each-ref") == left
    assert git(hub.hub, "rev-list", "--count", "--merges", TARGET) == "2"


@pytest.mark.req("RULE20")
def test_a_verify_that_was_killed_runs_again_and_what_it_left_is_gone(hub: Hub) -> None:
    daemon = hub.root / "daemon.pid"
    child = os.fork()
    if child == 0:
        try:
            hub.verify(1, hub.base, f"setsid sleep 300 & echo $! > {daemon}; kill -9 {os.getpid()}; sleep 300")
        finally:
            os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    left = next(hub.state_dir.glob("flow/*/calls/*/verify-f1"))
    assert psutil.pid_exists(int(daemon.read_text()))
    op = Verify(hub.keep_log)
    assert hub.run_op(op, 1, {"head": hub.base, "command": "true"}, fence=2).output["passed"]
    assert not left.exists() and git(hub.mirror, "worktree", "list").count("\n") == 0
    wait_until(lambda: not _alive(int(daemon.read_text())), 5, "the left daemon to be gone")


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE

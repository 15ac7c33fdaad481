"""The verify op: a command on a head, in a checkout of its own."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.integration.ops.host import OpHost
from tests.integration.worktrees.place import RUN
from tests.repositories import commit_files, git
from workers.claim import CallStopped
from workers.ops.verify import Verify


@pytest.fixture
def host(tmp_path: Path) -> OpHost:
    return OpHost(tmp_path / "h1")


@pytest.mark.req("O15")
def test_a_command_that_succeeds_on_the_head_passes(host: OpHost) -> None:
    worktree = host.turn(1, {"answer": "42\n"})
    head = host.commit(2).output["commit"]
    output = host.verify(3, head, "grep -q 42 answer && echo fine")
    assert (output["passed"], output["ran"], output["exit_status"], output["failed_tests"]) == (True, True, 0, [])
    assert output["summary"].startswith("`grep -q 42 answer && echo fine` passed after") and "fine" in output["summary"]
    assert [(step["step"], step["status"]) for step in output["steps"]] == [("command", "passed")]
    assert host.logs[output["log_digest"]] == b"fine\n"
    assert git(worktree, "status", "--porcelain") == ""


@pytest.mark.req("O15", "O18")
def test_a_command_that_fails_is_a_verdict_with_its_last_words(host: OpHost) -> None:
    output = host.verify(1, host.base, "echo before; echo 'it broke' >&2; exit 3")
    assert (output["passed"], output["ran"], output["exit_status"]) == (False, True, 3)
    entry = {"job": "verify", "step": "command", "tests": [], "packages": [], "tail": "before\nit broke"}
    assert output["failed_tests"] == [entry]
    assert "ended with status 3" in output["summary"] and "it broke" in output["summary"]


@pytest.mark.req("RULE20")
def test_what_a_command_leaves_is_gone_and_the_nodes_worktree_is_as_it_was(host: OpHost) -> None:
    worktree = host.turn(1, {"a": "a\n"})
    head = host.commit(2).output["commit"]
    output = host.verify(3, head, "pwd; echo build > out.txt; mkdir -p ro/x && chmod 500 ro; git status --short")
    checkout = Path(host.logs[output["log_digest"]].decode().split("\n")[0])
    assert output["passed"] and not checkout.exists() and checkout != worktree
    assert not (worktree / "out.txt").exists()
    assert str(checkout) not in git(host.mirror, "worktree", "list")


@pytest.mark.req("O17")
def test_the_base_is_where_the_head_left_the_integration_tip(host: OpHost) -> None:
    work = host.root / "hub.git-work"
    tip = commit_files(work, {"tip": "1"})
    git(work, "push", "-q", str(host.hub), f"{tip}:refs/heads/crw/{RUN}")
    head = commit_files(work, {"head": "1"})
    git(work, "push", "-q", str(host.hub), f"{head}:refs/crw/flow/{RUN}/commit/n/1")
    git(work, "checkout", "-q", "--detach", tip)
    moved = commit_files(work, {"other": "1"})
    git(work, "push", "-q", str(host.hub), f"{moved}:refs/heads/crw/{RUN}")
    op = Verify(host.keep_log)
    result = host.run_op(op, 1, {"head": head, "command": "true"})
    assert result.facts["base"] == tip and result.facts["head"] == head
    assert host.announced[0].event == "command_started" and host.announced[0].detail["base"] == tip


def test_without_a_target_the_base_is_measured_against_the_runs_own(host: OpHost) -> None:
    result = host.run_op(Verify(host.keep_log), 1, {"head": host.base, "command": "true"})
    assert result.facts["base"] == host.base


def test_a_head_that_only_the_hub_has_is_fetched(host: OpHost, tmp_path: Path) -> None:
    host.turn(1, {"a": "a\n"})
    head = host.commit(2).output["commit"]
    other = OpHost(tmp_path / "h2", hub=host.hub)
    assert other.verify(3, head, "test -f a")["passed"]


def test_a_command_sees_no_setting_or_secret_of_the_farm(host: OpHost, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CRW_DATABASE_URL", "CODEX_HOME", "OPENAI_API_KEY", "GITHUB_TOKEN", "PGPASSWORD", "GIT_DIR"):
        monkeypatch.setenv(name, "secret")
    output = host.verify(1, host.base, "env")
    assert b"secret" not in host.logs[output["log_digest"]] and b"PATH=" in host.logs[output["log_digest"]]


def test_setup_comes_first_in_the_same_checkout(tmp_path: Path) -> None:
    host = OpHost(tmp_path / "h1", setup="echo prepared > prepared.txt")
    output = host.verify(1, host.base, "cat prepared.txt")
    assert output["passed"] and [step["step"] for step in output["steps"]] == ["setup", "command"]


@pytest.mark.req("O18")
def test_a_setup_that_fails_is_no_verdict_and_the_command_is_skipped(tmp_path: Path) -> None:
    host = OpHost(tmp_path / "h1", setup="echo no network; exit 7")
    output = host.verify(1, host.base, "true")
    assert (output["passed"], output["ran"], output["exit_status"]) == (False, False, None)
    assert [(step["step"], step["status"]) for step in output["steps"]] == [("setup", "failed"), ("command", "skipped")]
    assert [(entry["step"], entry["tail"]) for entry in output["failed_tests"]] == [("setup", "no network")]
    assert output["summary"].startswith("setup ended with status 7") and host.logs[output["log_digest"]]


def test_a_command_that_is_not_there_did_not_run(host: OpHost) -> None:
    output = host.verify(1, host.base, "no-such-verifier --all")
    assert (output["passed"], output["ran"], output["exit_status"]) == (False, False, 127)


@pytest.mark.req("RULE29")
def test_a_command_that_hangs_ends_at_its_deadline_and_has_failed(tmp_path: Path) -> None:
    host = OpHost(tmp_path / "h1", verify_timeout_seconds=0.5)
    output = host.verify(1, host.base, "echo started; sleep 300 & sleep 300")
    assert (output["passed"], output["ran"]) == (False, True) and output["exit_status"] < 0
    assert "passed its deadline" in output["summary"] and "started" in output["summary"]


def test_a_call_that_is_told_to_end_ends_its_command_and_gives_no_verdict(host: OpHost) -> None:
    threading.Timer(0.6, lambda: setattr(host, "stop", "cancel")).start()
    started = time.monotonic()
    with pytest.raises(CallStopped, match="cancel"):
        host.verify(1, host.base, "sleep 300")
    assert time.monotonic() - started < 20
    assert git(host.mirror, "worktree", "list").count("\n") == 0


@pytest.mark.req("O18", "K11")
def test_a_failing_test_run_names_its_tests_in_result_and_summary(host: OpHost) -> None:
    head = commit_files(host.root / "hub.git-work", {"test_x.py": "def test_bad():\n    assert 1 == 2\n"})
    git(host.root / "hub.git-work", "push", "-q", str(host.hub), f"{head}:refs/heads/topic")
    said = "printf 'collected 1 item\\nFAILED test_x.py::test_bad - assert 1 == 2\\n1 failed\\n'; exit 1"
    output = host.verify(1, head, said)
    assert output["failed_tests"][0]["tests"] == ["test_x.py::test_bad"]
    assert "failed: test_x.py::test_bad" in output["summary"]


def test_a_very_long_log_is_kept_by_its_end(host: OpHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.ops.verify.LOG_LIMIT_BYTES", 1000)
    output = host.verify(1, host.base, "seq 1 100000; exit 1")
    assert len(host.logs[output["log_digest"]]) == 1000 and output["failed_tests"][0]["tail"].endswith("100000")
    assert len(output["failed_tests"][0]["tail"].split("\n")) == 20

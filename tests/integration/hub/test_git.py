"""The one way of running git."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from shared.base.errors import GitError, GitTimeout
from shared.hub.environment import git_environment
from shared.hub.git import Git
from shared.hub.looking import only_looks
from tests.repositories import commit_files, git, make_repository
from tests.waiting import wait_until


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.mark.req("W18")
def test_every_variable_that_routes_git_elsewhere_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = subprocess.run(["git", "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=True)
    names = listed.stdout.split()
    assert "GIT_DIR" in names
    for name in names:
        monkeypatch.setenv(name, "hostile")
    environment = git_environment()
    assert [name for name in names if environment.get(name) == "hostile"] == []


@pytest.mark.req("W18")
def test_hostile_git_variables_do_not_move_a_command_to_another_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    commit = commit_files(repository, {"a": "a"})
    assert Git().run(repository, "rev-parse", "HEAD").line == commit


def test_output_is_exact_bytes_also_when_it_is_large_and_no_text(repository: Path) -> None:
    content = bytes(range(256)) * 8000
    blob = Git().run(repository, "hash-object", "-w", "--stdin", input=content).line
    assert Git().run(repository, "cat-file", "blob", blob).out == content


def test_a_refusal_says_what_git_said_and_hides_passwords(repository: Path) -> None:
    with pytest.raises(GitError, match="git fetch failed: fatal") as caught:
        Git(5).run(repository, "fetch", "https://someone:secret@127.0.0.1:1/x")
    assert "secret" not in str(caught.value) and "secret" not in str(caught.value.facts)


def test_a_directory_that_is_not_there_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="there is no directory"):
        Git().run(tmp_path / "gone", "status")


@pytest.mark.req("RULE29")
def test_a_deadline_ends_git_with_everything_it_started(repository: Path) -> None:
    started = time.monotonic()
    # Nobody else's command: another run of these tests may be at this one too.
    sleep = f"sleep 4321.{os.getpid()}"
    with pytest.raises(GitTimeout, match="deadline"):
        Git().run(repository, "-c", f"alias.hang=!{sleep} & {sleep}", "hang", timeout_seconds=0.5)
    assert time.monotonic() - started < 10
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert sleep not in listed.stdout


@pytest.mark.req("RULE29")
def test_a_deadline_ends_a_script_with_everything_it_started(repository: Path) -> None:
    with pytest.raises(GitTimeout, match="git hang passed its deadline"):
        Git(0.5).run_script(repository, "hang", "sleep 4322 &\nsleep 4322", env={})
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 4322" not in listed.stdout


def test_a_script_says_its_output_and_ends_at_the_first_command_that_fails(repository: Path) -> None:
    assert Git().run_script(repository, "say", "git rev-parse --git-dir\ncat", env={}).out == b".git\n"
    with pytest.raises(GitError, match=r"git say failed: .*nothere") as caught:
        Git().run_script(repository, "say", "git cat-file blob nothere\necho more", env={})
    assert caught.value.facts["exit_status"] == 128


@pytest.mark.req("RULE29")
def test_a_script_ends_with_the_process_that_runs_it(repository: Path, tmp_path: Path) -> None:
    running = tmp_path / "running"
    script = f"touch {running}; sleep 4324"
    code = f"from shared.hub.git import Git; Git().run_script({str(repository)!r}, 'hang', {script!r}, env={{}})"
    caller = subprocess.Popen([sys.executable, "-c", code])
    wait_until(running.exists, 20, "the script to run")
    caller.kill()
    caller.wait()

    def is_gone() -> bool:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
        return not any(line.startswith("sleep 4324") for line in listed.stdout.splitlines())

    wait_until(is_gone, 10, "the script to end")


def test_a_script_leaves_nobody_for_the_machine_to_bury(repository: Path) -> None:
    # Orphans of a subreaper are its own children.
    code = f"""
import ctypes, os
from shared.hub.git import Git
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
Git().run_script({str(repository)!r}, "look", "git rev-parse --git-dir", env={{}})
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("none")
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout == "none\n"


def test_what_changes_something_or_asks_another_machine_is_no_mere_look() -> None:
    assert only_looks(("rev-parse", "HEAD")) and only_looks(("worktree", "list", "-z"))
    for args in (("worktree", "add"), ("fetch",), ("ls-remote", "x"), ("-c", "a=b", "rev-parse"), ("update-ref",)):
        assert not only_looks(args)


def test_users_settings_do_not_reach_the_commits(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "hook-ran"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {marker}\n", encoding="utf-8")
    (hooks / "post-checkout").chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(
        f"[core]\nautocrlf=true\nhooksPath={hooks}\nexcludesFile=/etc/passwd\n[commit]\ngpgSign=true\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    Git().run(repository, "checkout", "--detach")
    assert not marker.exists()
    assert Git().run(repository, "config", "--get", "commit.gpgSign").line == "false"
    assert Git().run(repository, "config", "--get", "core.excludesFile").line == os.devnull


def test_sixteen_threads_run_git_at_once(repository: Path) -> None:
    failures: list[BaseException] = []
    runner = Git(30)
    head = git(repository, "rev-parse", "HEAD")

    def work() -> None:
        try:
            for _ in range(10):
                assert runner.run(repository, "rev-parse", "HEAD").line == head
        except BaseException as error:  # noqa: BLE001 - shown below, in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []

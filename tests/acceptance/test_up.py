"""`crw up` as a user types it: a farm that other terminals find, that keeps its data and ends as a whole."""

from __future__ import annotations

import base64
import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.demo.repository import make_repository
from deploy.demo.run import FLOW, GOAL
from tests.acceptance.programs import (
    CRW,
    ROOT,
    assert_nothing_runs,
    started,
    user_environment,
    wait_for_words,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
READY = "Ctrl-C stops everything"


def _crw(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CRW, *arguments],
        env=user_environment(home),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _json(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _ask_flower(text: str, password_file: Path) -> int:
    address = re.search(r"http://[\d.]+:\d+", text)
    assert address is not None
    request = urllib.request.Request(f"{address[0]}/api/tasks")
    login = f"crw:{password_file.read_text().strip()}"
    request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        return len(json.loads(answer.read()))


def _run_the_readme_s_flow(home: Path) -> None:
    """The first flow that the README shows, with the scripted answer that it shows, on a repository of a user's own."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    source = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
    (answer,) = re.findall(r"`(\[\[steps:.*?\]\]\])`", readme)
    (home / "my_flow.py").write_text(source, encoding="utf-8")
    repository = home / "own"
    repository.mkdir()
    (repository / "Makefile").write_text("test:\n\tgrep hi hi.txt\n", encoding="utf-8")
    git = ["git", "-C", str(repository), "-c", "user.name=U", "-c", "user.email=u@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    nodes = [{"id": "greeting", "title": "Greet", "task": f"Say hi. {answer}"}]
    done = _crw(
        home, "flow", "start", "my_flow.py", "--repo", str(repository), "--args", json.dumps({"nodes": nodes}),
        "--wait", "--json",
    )  # fmt: skip
    outcome = _json(done)
    assert outcome["status"] == "completed" and outcome["result"]["merged"] is True
    branch = subprocess.run([*git, "show", f"crw/{outcome['run']}:hi.txt"], capture_output=True, text=True, check=True)
    assert branch.stdout == "hi\n"


def test_another_terminal_runs_a_flow_without_any_configuration_and_the_data_stays(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    home.mkdir()
    repository = make_repository(home / "wordkit")
    arguments = json.dumps({"goal": GOAL, "check": f"{shlex.quote(sys.executable)} -m unittest"})
    start = ("flow", "start", str(FLOW), "--repo", str(repository), "--args", arguments, "--key", "k1", "--json")
    with started((*CRW, "up", "--scripted"), user_environment(home), home, log) as up:
        wait_for_words(log, READY, up, 60)
        text = log.read_text()
        password_file = home / ".local" / "state" / "crw" / "flower-password"
        assert text.count(password_file.read_text().strip()) == 1 and password_file.stat().st_mode & 0o777 == 0o600
        assert _json(_crw(home, *start, "--wait"))["status"] == "completed"
        assert _ask_flower(text, password_file) > 5
        _run_the_readme_s_flow(home)
        second = _crw(home, "up")
        assert (second.returncode, second.stdout) == (2, "") and "already runs" in second.stderr
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
    assert_nothing_runs(home)
    assert _crw(home, "flow", "ps").returncode == 2
    with started((*CRW, "up", "--scripted"), user_environment(home), home, log) as up:
        wait_for_words(log, READY, up, 60)
        assert "kept in" not in log.read_text()
        # The same key is the same run: it is there, it is over, nothing runs again.
        assert _json(_crw(home, *start))["created"] is False
        up.terminate()
        assert up.wait(60) == 0
    assert_nothing_runs(home)


def _kill(up: subprocess.Popen[bytes], *words: str) -> None:
    """SIGKILL the farm's own children whose command line or program has one of these words."""
    for child in psutil.Process(up.pid).children():
        if any(word in text for text in (child.exe(), *child.cmdline()) for word in words):
            child.kill()


def test_a_process_or_server_that_dies_is_started_again_and_the_farm_works_on(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    home.mkdir()
    with started((*CRW, "up", "--scripted"), user_environment(home), home, log) as up:
        wait_for_words(log, READY, up, 60)
        _kill(up, "scheduler.service", "deploy.flower")
        wait_for_words(log, "scheduler ended with status -9; it is started again now", up, 20)
        wait_for_words(log, "flower ended with status -9; it is started again now", up, 20)
        _kill(up, "valkey")
        wait_for_words(log, "valkey ended with status -9; it is started again now", up, 20)
        _kill(up, "pginstall18")
        wait_for_words(log, "postgres ended with status", up, 20)
        _kill(up, "workers.app")
        wait_for_words(log, "worker ended with status -9; it is started again now", up, 20)
        _run_the_readme_s_flow(home)
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
    assert_nothing_runs(home)


def test_a_killed_farm_comes_up_again_at_once_on_what_it_left(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    home.mkdir()
    for _ in range(2):
        with started((*CRW, "up", "--scripted"), user_environment(home), home, log) as up:
            wait_for_words(log, READY, up, 60)
            up.kill()
            up.wait()
    with started((*CRW, "up", "--scripted"), user_environment(home), home, log) as up:
        wait_for_words(log, READY, up, 60)
        up.terminate()
        assert up.wait(60) == 0
    assert_nothing_runs(home)

"""The command line against a running farm: real scheduler, worker, repository; every command a process of its own."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.client import Farm as Client
from shared.base.settings import load_settings
from tests.farm import Farm
from tests.repositories import git, write_files
from tests.waiting import wait_until

SCRIPT = """\
async def main(flow, args):
    flow.phase("check")

    async def lane(command):
        return (await flow.crw.verify(head=args["head"], command=command, node=None)).require()

    seen = await flow.parallel({name: lane(command) for name, command in args["lanes"].items()})
    flow.log("all lanes have ended")
    if args.get("fail"):
        raise ValueError("as asked")
    return {name: one["passed"] for name, one in seen.items()}
"""


class User:
    """Somebody at a terminal of the farm."""

    def __init__(self, farm: Farm, place: Path) -> None:
        self.place = place
        self.head = git(place / "repo", "rev-parse", "HEAD")
        self.env = farm.env(host_name="terminal", state_dir=place / "state-terminal")

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "scheduler.cli.main", *arguments]

    def crw(self, *arguments: str, deadline_seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        argv = self.argv(*arguments)
        return subprocess.run(
            argv, cwd=self.place, env=self.env, capture_output=True, text=True, timeout=deadline_seconds, check=False
        )

    def records(self, *arguments: str) -> list[dict[str, Any]]:
        """What a command that succeeds says as JSON."""
        done = self.crw(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start(self, lanes: dict[str, str], *more: str, **args: Any) -> list[str]:
        """The arguments of a start."""
        given = json.dumps({"head": self.head, "lanes": lanes, **args})
        return ["flow", "start", "flow.py", "--repo", "repo", "--args", given, *more]


@pytest.fixture
def user(farm: Farm, tmp_path: Path) -> User:
    """A user of a farm with one scheduler and one worker."""
    repository = tmp_path / "repo"
    repository.mkdir()
    git(repository, "init", "-q")
    write_files(repository, {"a.txt": "a\n"})
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "first")
    write_files(tmp_path, {"flow.py": SCRIPT})
    farm.wait_up(farm.start_scheduler(), farm.start_worker("h1"))
    return User(farm, tmp_path)


@pytest.mark.req("X01", "X08", "J41")
def test_a_run_from_its_start_to_what_it_leaves(user: User):
    done = user.crw(*user.start({"good": "echo seen", "bad": "exit 3"}, "--watch", "--json", "--key", "one"))
    assert done.returncode == 0, done.stderr
    first, *rows, last = [json.loads(line) for line in done.stdout.splitlines()]
    run = first["run"]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert (last["status"], last["result"]) == ("completed", {"bad": False, "good": True})

    again = user.crw(*user.start({"good": "echo seen", "bad": "exit 3"}, "--wait", "--key", "one"))
    assert again.returncode == 0 and run in again.stdout, "the same key never starts a second run"
    (listed,) = user.records("flow", "ps", "--all")
    assert (listed["run"], listed["status"], listed["done"], listed["open"]) == (run, "completed", 2, 0)

    (shown,) = user.records("flow", "show", run)
    calls = {call["path"].rpartition("[")[2]: call for call in shown["calls"]}
    assert calls["good]"]["host"] == "h1" and calls["good]"]["state"] == "completed"
    text = user.crw("flow", "show", calls["good]"]["call"]).stdout
    assert "command_started" in text and "log:\n    seen" in text.replace("\n\n", "\n")

    states = {one["place"]: one["state"] for one in user.records("flow", "clean", run)}
    assert states == {"hub": "removed", "host h1": "removed"}
    assert not (user.place / "state-h1" / "flow" / run).exists()
    assert git(user.place / "repo", "for-each-ref", "refs/crw") == ""


@pytest.mark.req("X01")
def test_a_script_that_raises_ends_with_status_1_and_its_own_traceback(user: User):
    done = user.crw(*user.start({"a": "true"}, "--wait", fail=True))
    assert done.returncode == 1
    assert "ValueError: as asked" in done.stderr and 'raise ValueError("as asked")' in done.stderr
    assert "scheduler/" not in done.stderr, "the engine's own frames are no business of the script's author"


@pytest.mark.req("K71")
def test_cancel_ends_a_run_whose_command_is_running(user: User, farm: Farm):
    run = user.crw(*user.start({"long": "sleep 300"})).stdout.split()[0]
    wait_until(lambda: farm.call_rows(run, "command_started"), 20, "the command to run")
    assert user.crw("flow", "clean", run).returncode == 2, "a running run is not cleaned"
    done = user.crw("flow", "cancel", run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert user.crw("flow", "result", run).returncode == 1
    assert user.crw("flow", "clean", run).returncode == 0


def test_ctrl_c_stops_watching_and_not_the_run(user: User, farm: Farm):
    gate = farm.directory / "may-end"
    waits = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    run = user.crw(*user.start({"long": waits})).stdout.split()[0]
    argv = user.argv("flow", "watch", run)
    watching = subprocess.Popen(argv, cwd=user.place, env=user.env, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    assert watching.stdout is not None and watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=20)
    assert watching.returncode == 130 and b"Traceback" not in said and b"the run goes on" in said
    gate.touch()
    assert farm.wait_finished(run).data["status"] == "completed"


def test_on_a_terminal_the_lanes_are_drawn_while_they_run(user: User):
    main, end = pty.openpty()
    env = {**user.env, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"}
    argv = user.argv(*user.start({"left": "sleep 2", "right": "true"}, "--watch"))
    child = subprocess.Popen(argv, cwd=user.place, env=env, stdout=end, stderr=end, stdin=end, start_new_session=True)
    os.close(end)
    drawn = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        drawn += part
        if not part:
            break
    assert child.wait(30) == 0, drawn.decode(errors="replace")[-2000:]
    for words in (b"LANE", b"left", b"right", b"command_started", b"completed", b"all lanes have ended"):
        assert words in drawn


@pytest.mark.req("T51")
def test_a_batch_of_runs_from_a_script_ends_and_is_there_once(user: User, farm: Farm, monkeypatch: pytest.MonkeyPatch):
    lines = [json.dumps({"args": {"head": user.head, "lanes": {}, "n": number}}) for number in range(30)]
    (user.place / "runs.jsonl").write_text("\n".join(lines))
    batch = ["flow", "batch", "runs.jsonl", "--script", "flow.py", "--repo", "repo"]
    first = user.records(*batch)
    assert [one["run"] for one in user.records(*batch)] == [one["run"] for one in first]
    for name, value in user.env.items():
        if name.startswith("CRW_"):
            monkeypatch.setenv(name, value)
    with Client(settings=load_settings()) as client:
        assert all(client.wait(one["run"], timeout=60).ok for one in first)

"""One state directory has one live worker; its lock outlives the worker only while the App Server lives."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shared.base.errors import UsageError
from tests.waiting import wait_until
from workers.state_dir import ProcessName, StateDirectory

HOLDER = """
import os, subprocess, sys, time
from pathlib import Path
from workers.state_dir import StateDirectory
state = StateDirectory(Path(sys.argv[1]), "h1", 0)
if len(sys.argv) > 2:
    server = subprocess.Popen(["sleep", "60"], pass_fds=(state.lock_fd,), start_new_session=True)
    print(server.pid, flush=True)
print("ready", flush=True)
time.sleep(60)
"""


def start_holder(path: Path, *more: str) -> subprocess.Popen[str]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path), *more], stdout=subprocess.PIPE, text=True)
    return holder


def end(holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    assert holder.stdout is not None
    holder.stdout.close()


@pytest.mark.req("RULE5", "K64")
def test_a_second_worker_is_refused_and_told_who_has_it(tmp_path: Path):
    holder = start_holder(tmp_path)
    assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
    with pytest.raises(UsageError, match=rf"in use by the worker of host h1 \(pid {holder.pid}\)"):
        StateDirectory(tmp_path, "h2", 0)
    end(holder)
    StateDirectory(tmp_path, "h2", 0).close()


@pytest.mark.req("RULE4", "T39", "A20")
def test_the_server_of_a_killed_worker_is_ended_before_its_directory_is_taken(tmp_path: Path):
    holder = start_holder(tmp_path, "server")
    assert holder.stdout is not None
    server = ProcessName.of(int(holder.stdout.readline()))
    assert holder.stdout.readline() == "ready\n"
    end(holder)
    assert server.is_alive()
    StateDirectory(tmp_path, "h1", 0).close()
    wait_until(lambda: not server.is_alive(), 5, "the old server to end")


@pytest.mark.req("A20", "T34")
def test_a_process_that_cannot_be_ended_keeps_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("workers.state_dir._TAKE_OVER_SECONDS", 0.2)
    state = StateDirectory(tmp_path, "h1", 0)
    child = subprocess.Popen(["sleep", "60"], pass_fds=(state.lock_fd,))
    state.close()
    # A worker that this machine does not know, for instance of another container: nothing proves whose child that is.
    (tmp_path / "worker.lock").write_text('{"host": "h1", "pid": 1, "started": "0"}')
    with pytest.raises(UsageError, match="locked by a process that a dead worker"):
        StateDirectory(tmp_path, "h1", 0)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()


@pytest.mark.req("RULE6")
def test_the_directory_keeps_its_ids_and_another_has_others(tmp_path: Path):
    first = StateDirectory(tmp_path / "a", "h1", 0)
    first.close()
    again = StateDirectory(tmp_path / "a", "h1", 0)
    other = StateDirectory(tmp_path / "b", "h1", 0)
    assert (first.host_id, first.home_id) == (again.host_id, again.home_id)
    assert len({first.host_id, first.home_id, other.host_id, other.home_id}) == 4
    again.close()
    other.close()


@pytest.mark.req("RULE6")
def test_too_little_disk_is_refused_with_what_is_needed(tmp_path: Path):
    with pytest.raises(UsageError, match="MiB free and needs"):
        StateDirectory(tmp_path, "h1", 1 << 60)


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        StateDirectory(tmp_path / "file" / "state", "h1", 0)

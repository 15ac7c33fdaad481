"""What a dead worker left running is ended by its successor, and nobody else's process is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from shared.base.command import mark_children, run_command
from tests.waiting import wait_until
from workers.markers import Markers
from workers.state_dir import ProcessName, boot_id

_WORKER = """
import sys
from pathlib import Path
from shared.base.command import mark_children, run_command
from workers.markers import Markers
mark_children(Markers(Path(sys.argv[1])).holding)
command = ["sh", "-c", "sleep 300 & echo $! > grandchild; wait"]
run_command(command, cwd=Path(sys.argv[2]), env={}, output=Path(sys.argv[2]) / "out", timeout_seconds=300)
"""


@contextmanager
def session(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(argv, start_new_session=True)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def mark(directory: Path, pid: int, **changes: object) -> Path:
    file = directory / f"{pid}.json"
    record = {"pid": pid, "started": ProcessName.of(pid).started, "boot_id": boot_id(), **changes}
    file.write_text(json.dumps(record))
    return file


@pytest.mark.req("C30", "K27")
def test_a_command_whose_worker_was_killed_is_ended_by_the_next_worker_with_all_it_started(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    root = Path(__file__).parents[3]
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(marks), str(tmp_path)], env={**os.environ, "PYTHONPATH": str(root)}
    )
    file = tmp_path / "grandchild"
    pid = int(wait_until(lambda: file.exists() and file.read_text().strip(), 20, "the command to be at work"))
    # The command may be at work before its worker comes to mark it.
    wait_until(lambda: list(marks.glob("*.json")), 20, "the marker")
    worker.kill()
    worker.wait()
    # Its shell died with it, what the shell had started did not.
    assert psutil.pid_exists(pid)
    assert Markers(marks).reap() >= 1
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie", 5, "its end")
    assert not list(marks.iterdir()) and Markers(marks).reap() == 0


@pytest.mark.req("C30")
@pytest.mark.parametrize("changes", [{"boot_id": "another"}, {"started": "1"}], ids=["another-boot", "a-reused-pid"])
def test_a_marker_of_another_boot_or_of_an_earlier_process_with_that_pid_ends_nobody(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    markers = Markers(tmp_path)
    with session("sleep", "300") as child:
        file = mark(tmp_path, child.pid, **changes)
        assert markers.reap() == 0 and child.poll() is None
        assert not file.exists()


@pytest.mark.req("C30")
def test_a_marker_is_there_while_its_child_runs_and_gone_behind_it(tmp_path: Path) -> None:
    markers = Markers(tmp_path / "marks")
    seen: list[str] = []

    def look() -> bool:
        seen.extend(file.read_text() for file in (tmp_path / "marks").iterdir())
        return bool(seen)

    mark_children(markers.holding)
    try:
        command = ["sleep", "30"]
        run_command(command, cwd=tmp_path, env={}, output=tmp_path / "out", timeout_seconds=30, should_stop=look)
    finally:
        mark_children(Markers(tmp_path / "unused").holding)
    assert json.loads(seen[0])["boot_id"] == boot_id()
    assert not list((tmp_path / "marks").iterdir())

"""What a killed demo left is removed by the next one; what is in use, or was kept, is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from deploy.demo.abandoned import DemoDirectory, remove_abandoned

_KILLED = """
import os, signal, sys
from pathlib import Path
from deploy.demo.abandoned import DemoDirectory
made = DemoDirectory(Path(sys.argv[1]))
(made.path / "services").mkdir()
(made.path / "services" / "data").write_text("x")
(made.path / "link").symlink_to(sys.argv[2], target_is_directory=True)
if sys.argv[3] == "keep":
    made.keep()
os.kill(os.getpid(), signal.SIGKILL)
"""


def _kill_one(parent: Path, elsewhere: Path, how: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(Path.cwd()))}
    ended = subprocess.run(
        [sys.executable, "-c", _KILLED, str(parent), str(elsewhere), how], env=environment, check=False
    )
    assert ended.returncode == -signal.SIGKILL


def test_the_next_demo_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    parent, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").touch()
    _kill_one(parent, elsewhere, "keep")
    (kept,) = parent.iterdir()
    running = DemoDirectory(parent)
    stranger = parent / "demo-of-old"
    stranger.mkdir()
    _kill_one(parent, elsewhere, "leave")
    (killed,) = set(parent.iterdir()) - {kept, running.path, stranger}
    mine = DemoDirectory(parent)
    assert set(parent.iterdir()) == {kept, running.path, stranger, mine.path}
    assert not killed.exists() and (elsewhere / "mine").exists()
    mine.close()
    running.close()
    assert set(parent.iterdir()) == {kept, stranger}
    assert remove_abandoned(parent) == 0

"""What a process logs never mixes with what it answers."""

from __future__ import annotations

import subprocess
import sys


def test_a_process_that_configures_nothing_logs_to_standard_error() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from shared.base.log import get_logger; get_logger().warning('x'); print('answer')"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "answer\n" and "x" in said.stderr

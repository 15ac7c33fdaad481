"""`crw demo`: the main job from nothing to integrated commits, on services that it starts and stops itself.

The run is submitted with the command a user would type, which also shows the lanes; the
end is read back from the journal and from git.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import time
from pathlib import Path
from typing import TextIO

from deploy.demo.report import Report, make_report
from deploy.demo.repository import MAIN
from deploy.demo.stage import FLOW, GOAL, Stage, run_on_stage
from deploy.laptop import Stopped, state_environment
from deploy.processes import program
from shared.base.settings import FlowerSettings

__all__ = ["FLOW", "GOAL", "run_demo", "start_command"]

TARGET = "farm"
KEY = "demo"
FLOWER_PASSWORD = "demo"


def run_demo(
    *,
    keep: bool = False,
    as_json: bool = False,
    flower: bool = False,
    parent: Path | None = None,
    output: TextIO | None = None,
) -> int:
    """Run the demo and leave nothing running.

    Args:
        keep: leave repository, journal, state directories and logs on disk; a demo that failed leaves them anyway.
        as_json: print one JSON object at the end and nothing else.
        flower: serve Flower while the demo runs, and wait for Ctrl-C at the end.
        parent: where the demo makes its own directory; default the user's cache directory.

    Returns:
        0 the run completed, 1 it did not or a process died, 128 + the signal's number after a signal.

    Raises:
        UsageError: git is missing, or the directory cannot be written.
        EmbeddedError: a bundled server did not start.
    """
    sink = output or sys.stdout
    started = time.monotonic()

    def say(text: str) -> None:
        if not as_json:
            print(text, file=sink, flush=True)

    def play(stage: Stage) -> bool:
        if flower:
            address = stage.laptop.start_flower(
                stage.base | state_environment(stage.directory / "flower", "flower"), FlowerSettings(port=0),
                FLOWER_PASSWORD,
            )  # fmt: skip
            say(f"Flower: {address}  login crw, password {FLOWER_PASSWORD}")
        command = start_command(stage, TARGET, KEY, "--wait" if as_json else "--watch")
        say(f"$ {program()} {shlex.join(command)}\n")
        status = stage.crw(command, stage.directory / "log" / "submit.log" if as_json else None)
        seconds = time.monotonic() - started
        report = make_report(stage.database, stage.repository, TARGET, exit_status=status, seconds=seconds)
        _print_report(report, stage.directory if keep or not report.completed else None, as_json, sink)
        if flower and not as_json:
            say("\nFlower stays until Ctrl-C.")
            with contextlib.suppress(Stopped):
                stage.laptop.wait_until(lambda: False)
        return report.completed

    return run_on_stage(play, keep=keep, parent=parent, sink=sink, say=say)


def start_command(stage: Stage, target: str, key: str, follow: str | None) -> list[str]:
    """What a user would type to start the demo's flow. `follow`: `--watch`, `--wait` or neither."""
    arguments = {"goal": GOAL, "check": f"{shlex.quote(sys.executable)} -m unittest"}
    more = {"--wait": ["--wait", "--json"], "--watch": ["--watch"], None: ["--json"]}[follow]
    return [
        "flow", "start", str(FLOW), "--repo", str(stage.repository), "--base", MAIN, "--target", target, "--key", key,
        "--args", json.dumps(arguments), *more,
    ]  # fmt: skip


def _print_report(report: Report, kept: Path | None, as_json: bool, sink: TextIO) -> None:
    if as_json:
        print(json.dumps(report.as_record(kept)), file=sink, flush=True)
    else:
        print(report.as_text(kept, color=sink.isatty()), file=sink, flush=True)

"""`crw demo`: the main job from nothing to integrated commits, on services that it starts and stops itself.

What runs is the farm as it is: embedded PostgreSQL and Valkey, one scheduler, two worker
hosts with a state directory and a Codex home each, the real App Server. The model alone
is a script. The run is submitted with the command a user would type, which also shows
the lanes; the end is read back from the journal and from git.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from deploy.demo.report import Report, make_report
from deploy.demo.repository import MAIN, make_repository
from deploy.health import worker_is_up
from deploy.laptop import START_SECONDS, Laptop, Stopped, state_environment, stop_on_signals
from deploy.processes import ChildDied, clean_environment, program
from deploy.scripted import as_variables, scripted_settings, start_model
from deploy.server import EmbeddedError
from shared.base.command import die_with_parent, kill_group
from shared.base.errors import UsageError
from shared.base.settings import FlowerSettings
from shared.journal.database import Database

FLOW = Path(__file__).with_name("flow.py")
HOSTS = ("left", "right")
TARGET = "farm"
KEY = "demo"
GOAL = "Give wordkit three more functions: initials, truncate and count_words, each with tests."
FLOWER_PASSWORD = "demo"
# Nothing of value runs in a demo: what does not end at once may be killed.
_STOP_SECONDS = 6.0
_SETTINGS = {
    # Three lanes need both hosts.
    "concurrency": 2,
    # Silence is noticed soon; a demo is over before a production lease would end.
    "lease_seconds": 10.0,
    "sweep_seconds": 1.0,
    "poll_seconds": 1.0,
    "drain_seconds": 1.0,
    "min_free_bytes": 256 << 20,
    "call_deadline_seconds": 300.0,
    "log_level": "info",
}


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

    def say(text: str) -> None:
        if not as_json:
            print(text, file=sink, flush=True)

    directory = _make_directory(parent or _cache_directory())
    try:
        with stop_on_signals():
            # The stack closes with signals still ignored after a first one: nothing is left half stopped.
            try:
                with contextlib.ExitStack() as stack:
                    laptop, report = _run(directory, stack, as_json, flower, say)
                    keep = keep or not report.completed
                    _print_report(report, directory if keep else None, as_json, sink)
                    if flower and not as_json:
                        say("\nFlower stays until Ctrl-C.")
                        with contextlib.suppress(Stopped):
                            laptop.wait_until(lambda: False)
            except Stopped as stopped:
                say(f"\n{stopped}: stopped, nothing is left running")
                return 128 + stopped.number
            except ChildDied as died:
                print(died, file=sys.stderr)
                keep = True
                print(f"The logs are kept in {directory}", file=sys.stderr)
                return 1
            except EmbeddedError:
                # Its sentence names a log.
                keep = True
                raise
        return 0 if report.completed else 1
    finally:
        _show_cursor(sink)
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def _run(
    directory: Path, stack: contextlib.ExitStack, as_json: bool, flower: bool, say: Callable[[str], None]
) -> tuple[Laptop, Report]:
    started = time.monotonic()
    repository = _prepare_repository(directory / "wordkit")
    model = start_model()
    stack.callback(model.stop)
    say("Starting PostgreSQL, Valkey, a scheduler, two worker hosts and the scripted model …")
    laptop = stack.enter_context(Laptop(directory, stop_seconds=_STOP_SECONDS))
    base = _base_environment(directory, model.base_url)
    laptop.start("scheduler", "scheduler.service", base | state_environment(directory / "scheduler", "scheduler"))
    for name in HOSTS:
        laptop.start(f"worker-{name}", "workers.app", base | state_environment(directory / name, name))
    if flower:
        address = laptop.start_flower(
            base | state_environment(directory / "flower", "flower"), FlowerSettings(port=0), FLOWER_PASSWORD
        )
        say(f"Flower: {address}  login crw, password {FLOWER_PASSWORD}")
    database = Database(laptop.database_url, process="demo", pool_size=1)
    stack.callback(database.close)
    if not laptop.wait_until(lambda: all(worker_is_up(database, name) for name in HOSTS), START_SECONDS):
        raise ChildDied(f"the workers did not report within {START_SECONDS:.0f} s; their logs are in {laptop.logs}")
    command = _command(repository, as_json)
    say(f"$ {program()} {shlex.join(command)}\n")
    environment = base | state_environment(directory / "scheduler", "client")
    services = {"CRW_DATABASE_URL": laptop.database_url, "CRW_BROKER_URL": laptop.broker_url}
    status = _submit(laptop, command, environment | services, directory / "log" / "submit.log" if as_json else None)
    return laptop, make_report(database, repository, TARGET, exit_status=status, seconds=time.monotonic() - started)


def _command(repository: Path, as_json: bool) -> list[str]:
    arguments = {"goal": GOAL, "check": f"{shlex.quote(sys.executable)} -m unittest"}
    return [
        "flow", "start", str(FLOW), "--repo", str(repository), "--base", MAIN, "--target", TARGET, "--key", KEY,
        "--args", json.dumps(arguments), *(["--wait", "--json"] if as_json else ["--watch"]),
    ]  # fmt: skip


def _submit(laptop: Laptop, command: list[str], environment: Mapping[str, str], log: Path | None) -> int:
    """Run `crw flow start` in the foreground, watching over the farm. Returns its exit status."""
    with contextlib.ExitStack() as files:
        sink = files.enter_context(open(log, "ab")) if log is not None else None
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "scheduler.cli.main", *command],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=dict(environment),
            cwd=laptop.logs.parent,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    try:
        laptop.wait_until(lambda: child.poll() is not None)
    finally:
        kill_group(child)
    if child.returncode not in (0, 1):
        said = "" if log is None else f":\n{log.read_text(errors='replace')}"
        raise ChildDied(f"crw flow start ended with status {child.returncode}{said}", exit_status=child.returncode)
    return child.returncode


def _base_environment(directory: Path, model_url: str) -> dict[str, str]:
    # An empty file of its own keeps the user's crw.toml out of the demo.
    empty = directory / "crw.toml"
    empty.touch()
    settings = {**_SETTINGS, **scripted_settings(model_url)}
    return clean_environment(CRW_CONFIG=str(empty), **as_variables(settings))


def _prepare_repository(directory: Path) -> Path:
    try:
        return make_repository(directory)
    except FileNotFoundError:
        raise UsageError("the demo needs git and found none; install it and try again") from None
    except subprocess.CalledProcessError as error:
        raise UsageError(f"git refused to make the demo's repository: {error.stderr.strip()}") from None


def _cache_directory() -> Path:
    # Not the directory for temporary files: a model's sandbox may be allowed to write there.
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "crw"


def _make_directory(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="demo-", dir=parent)).resolve()
    except OSError as error:
        raise UsageError(
            f"the demo cannot write to {parent} ({error.strerror}); set XDG_CACHE_HOME to a directory it may use"
        ) from None


def _print_report(report: Report, kept: Path | None, as_json: bool, sink: TextIO) -> None:
    if as_json:
        print(json.dumps(report.as_record(kept)), file=sink, flush=True)
    else:
        print(report.as_text(kept, color=sink.isatty()), file=sink, flush=True)


def _show_cursor(sink: TextIO) -> None:
    # A live display that was killed may have left it hidden.
    if sink.isatty():
        sink.write("\x1b[?25h")
        sink.flush()

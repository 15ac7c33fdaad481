"""The stage of every demo: a directory of its own, the farm's processes on it, and an end that leaves nothing.

What runs is the farm as it is: embedded PostgreSQL and Valkey, one scheduler, two worker
hosts with a state directory and a Codex home each, the real App Server. The model alone
is a script.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from deploy.demo.abandoned import DemoDirectory
from deploy.demo.repository import make_repository
from deploy.demo.scripted_model import ScriptedModel
from deploy.health import worker_is_up
from deploy.laptop import START_SECONDS, Laptop, Stopped, state_environment, stop_on_signals
from deploy.processes import Child, ChildDied, clean_environment
from deploy.scripted import as_variables, scripted_settings, start_model
from deploy.server import EmbeddedError
from shared.base.command import die_with_parent, kill_group
from shared.base.errors import UsageError
from shared.journal.database import Database

FLOW = Path(__file__).with_name("flow.py")
HOSTS = ("left", "right")
GOAL = "Give wordkit three more functions: initials, truncate and count_words, each with tests."
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

Play = Callable[["Stage"], bool]
"""What happens on the stage; whether it came to its good end."""


class Stage:
    """A farm for a demo, its processes by name, and a repository. Everything ends with `stack`.

    Shape: `children` the farm's own processes; `model` the scripted one; `services` the
    variables that let a command find database and broker.
    """

    def __init__(
        self, directory: Path, stack: contextlib.ExitStack, say: Callable[[str], None], **settings: Any
    ) -> None:
        """Bring everything up.

        Args:
            settings: over those of every demo.

        Raises:
            UsageError, EmbeddedError, ChildDied: it does not come up.
        """
        self.directory = directory
        self.say = say
        self.repository = _prepare_repository(directory / "wordkit")
        self.model: ScriptedModel = start_model()
        stack.callback(self.model.stop)
        say("Starting PostgreSQL, Valkey, a scheduler, two worker hosts and the scripted model …")
        self.laptop = stack.enter_context(Laptop(directory, stop_seconds=_STOP_SECONDS))
        self.base = _base_environment(directory, self.model.base_url, settings)
        self.children: dict[str, Child] = {}
        for name in ("scheduler", *HOSTS):
            self.start(name)
        self.database = Database(self.laptop.database_url, process="demo", pool_size=1)
        stack.callback(self.database.close)
        self.wait_for_workers(*HOSTS)

    def start(self, name: str) -> Child:
        """Start the scheduler, or the worker of a host, also once more."""
        module = "scheduler.service" if name == "scheduler" else "workers.app"
        log = name if name == "scheduler" else f"worker-{name}"
        environment = self.base | state_environment(self.directory / name, name)
        self.children[name] = self.laptop.start(log, module, environment)
        return self.children[name]

    def wait_for_workers(self, *names: str) -> None:
        """Wait until the workers of these hosts hold their leases.

        Raises:
            ChildDied: they do not.
        """
        if not self.laptop.wait_until(lambda: all(worker_is_up(self.database, name) for name in names), START_SECONDS):
            raise ChildDied(
                f"the workers did not report within {START_SECONDS:.0f} s; their logs are in {self.laptop.logs}"
            )

    def environment(self) -> dict[str, str]:
        """The variables of a command that a user would type."""
        services = {"CRW_DATABASE_URL": self.laptop.database_url, "CRW_BROKER_URL": self.laptop.broker_url}
        return self.base | state_environment(self.directory / "scheduler", "client") | services

    def crw(self, command: list[str], log: Path | None = None, allowed: tuple[int, ...] = (0, 1)) -> int:
        """Run a `crw` command in the foreground, watching over the farm. Returns its exit status.

        Args:
            log: where its output goes instead of the terminal.

        Raises:
            ChildDied: it ended with another status than those allowed.
        """
        with contextlib.ExitStack() as files:
            sink = files.enter_context(open(log, "ab")) if log is not None else None
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "scheduler.cli.main", *command],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env=self.environment(),
                cwd=self.directory,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        try:
            self.laptop.wait_until(lambda: child.poll() is not None)
        finally:
            kill_group(child)
        if child.returncode not in allowed:
            said = "" if log is None else f":\n{log.read_text(errors='replace')}"
            name = " ".join(command[:2])
            raise ChildDied(f"crw {name} ended with status {child.returncode}{said}", exit_status=child.returncode)
        return child.returncode


def run_on_stage(
    play: Play,
    *,
    keep: bool,
    parent: Path | None,
    sink: TextIO,
    say: Callable[[str], None],
    **settings: Any,
) -> int:
    """Make the directory, play, and leave nothing running.

    Args:
        keep: leave the directory; one whose play did not come to its good end stays anyway.
        parent: where the directory is made; default the user's cache directory.

    Returns:
        0 the play came to its good end, 1 it did not or a process died, 128 + the signal's number after a signal.

    Raises:
        UsageError: git is missing, or the directory cannot be written.
        EmbeddedError: a bundled server did not start.
    """
    made = _make_directory(parent or _cache_directory())
    directory = made.path
    if keep:
        made.keep()
    try:
        with stop_on_signals():
            # The stack closes with signals still ignored after a first one: nothing is left half stopped.
            try:
                with contextlib.ExitStack() as stack:
                    good = play(Stage(directory, stack, say, **settings))
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
        keep = keep or not good
        return 0 if good else 1
    finally:
        _show_cursor(sink)
        if keep:
            made.keep()
        made.close()


def _base_environment(directory: Path, model_url: str, more: Mapping[str, Any]) -> dict[str, str]:
    # An empty file of its own keeps the user's crw.toml out of the demo.
    empty = directory / "crw.toml"
    empty.touch()
    settings = {**_SETTINGS, **more, **scripted_settings(model_url)}
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


def _make_directory(parent: Path) -> DemoDirectory:
    try:
        return DemoDirectory(parent)
    except OSError as error:
        raise UsageError(
            f"the demo cannot write to {parent} ({error.strerror}); set XDG_CACHE_HOME to a directory it may use"
        ) from None


def _show_cursor(sink: TextIO) -> None:
    # A live display that was killed may have left it hidden.
    if sink.isatty():
        sink.write("\x1b[?25h")
        sink.flush()

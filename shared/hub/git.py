"""Run git: in the directory given, with a deadline, and with every byte of its output.

`sh` starts the child in a session of its own and hands it the files that take its
output; nothing goes through a pipe, so a helper that outlives git cannot hang the
caller. `sh`'s own `_timeout` is not used: it polls every tenth of a second (105 ms a
command against 5 ms measured) and signals git alone, not its group.

What only looks is started without a fork (`looking.py`): a worker's memory is large, and
a fork of it costs ten times what git takes to look.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import sh

from shared.base.command import KILL_GRACE_SECONDS, die_with_parent
from shared.base.errors import GitError, GitTimeout
from shared.base.log import mask_url
from shared.hub.environment import git_environment
from shared.hub.looking import Child, Files, Looking, LookingTogether, only_looks

# core.fsync came with it, and with it the promise that what a ref names survives a power cut.
GIT_AT_LEAST = (2, 36)
DEFAULT_TIMEOUT_SECONDS = 600.0
_SHOWN_LINES = 3
# SIGTERM lets git remove its lock files, also when the worker is killed over its head.
_end_with_parent = functools.partial(die_with_parent, signal.SIGTERM)


Start = Callable[[tuple[str, ...], str, dict[str, str], Files], Child]


@dataclass(frozen=True)
class Result:
    """How a git command ended: its output byte for byte, its messages as text."""

    exit_status: int
    out: bytes
    err: str

    @property
    def line(self) -> str:
        """The output without its last newline (a path in it may end in a space)."""
        return self.out.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def records(self) -> list[str]:
        """The NUL-separated records of a `-z` output."""
        return split_records(self.out)


def split_records(out: bytes) -> list[str]:
    """The NUL-separated records of a `-z` output."""
    return [item.decode("utf-8", "surrogateescape") for item in out.split(b"\0") if item]


class Git:
    """The git on this machine's PATH."""

    def __init__(self, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        self.timeout_seconds = timeout_seconds
        try:
            self._command = sh.Command("git")
        except sh.CommandNotFound:
            raise GitError(
                f"git is not on PATH; install git {GIT_AT_LEAST[0]}.{GIT_AT_LEAST[1]} or newer", argv=["git"]
            ) from None

    def run(
        self,
        directory: Path | str,
        *args: str,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout_seconds: float | None = None,
    ) -> Result:
        """Run `git <args>` in `directory`.

        Args:
            env: variables over the scrubbed environment, for instance GIT_INDEX_FILE.
            check: whether another exit status than 0 is an error.

        Raises:
            GitError: git said no, or the directory is not there.
            GitTimeout: the deadline passed; the whole process group is gone.
        """
        start = self._look if only_looks(args) else self._start
        result = self._finish(start, directory, args, args, input, env, timeout_seconds)
        if check and result.exit_status != 0:
            raise git_error(args, result)
        return result

    def run_script(self, directory: Path | str, name: str, script: str, *, env: Mapping[str, str]) -> Result:
        """Run several git commands in one child of this process, up to the first that fails.

        They may add objects to the repository and change nothing else.

        Args:
            name: what they do together, for the error.
            script: for `/bin/sh`; it takes nothing in that is not in its environment.

        Raises:
            GitError: as `run`.
        """
        result = self._finish(self._look_together, directory, (script,), (name,), None, env, None)
        if result.exit_status != 0:
            raise git_error((name,), result)
        return result

    def _finish(
        self,
        start: Start,
        directory: Path | str,
        args: tuple[str, ...],
        named: tuple[str, ...],
        input: bytes | None,
        env: Mapping[str, str] | None,
        timeout_seconds: float | None,
    ) -> Result:
        """Start a child and see it to its end; `named` is what an error calls it."""
        # Checked here, so that a missing directory is told from a git that cannot be started.
        if not os.path.isdir(directory):
            raise GitError(f"git {named[0]}: there is no directory {str(directory)!r}", argv=_masked(named))
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            if input:
                source.write(input)
                source.seek(0)
            try:
                child = start(args, os.fspath(directory), git_environment(env), Files(source, out, err))
            except (sh.ForkException, OSError) as error:
                said = str(error).splitlines()[-1]
                raise GitError(f"git {named[0]} cannot be started: {said}", argv=["git"]) from None
            timed_out = _wait(child, timeout_seconds or self.timeout_seconds)
            result = Result(child.exit_code, _content(out), _text(err))
        if timed_out:
            raise GitTimeout(
                f"git {named[0]} passed its deadline and was ended", argv=_masked(named), output=result.err
            )
        return result

    def _start(self, args: tuple[str, ...], directory: str, env: dict[str, str], files: Files) -> Child:
        running = self._command(
            *args,
            _cwd=directory,
            _env=env,
            _in=files.source,
            _out=files.out,
            _err=files.err,
            _tty_out=False,
            _bg=True,
            _bg_exc=False,
            _new_session=True,
            _preexec_fn=_end_with_parent,
        )
        return cast(Child, running.process)

    def _look(self, args: tuple[str, ...], directory: str, env: dict[str, str], files: Files) -> Child:
        return Looking([str(self._command), *args], directory, env, files)

    def _look_together(self, args: tuple[str, ...], directory: str, env: dict[str, str], files: Files) -> Child:
        return LookingTogether(args[0], directory, env, files)


def git_error(args: tuple[str, ...], result: Result) -> GitError:
    """The error for a git command that ended with another status than 0."""
    said = mask_url(result.err.strip())
    words = [line for line in said.splitlines() if line.strip() and not line.startswith("hint:")][:_SHOWN_LINES]
    return GitError(
        f"git {args[0]} failed: {'; '.join(words) or f'exit status {result.exit_status}'}",
        argv=_masked(args),
        exit_status=result.exit_status,
        output=said,
    )


def _masked(args: tuple[str, ...]) -> list[str]:
    return ["git", *map(mask_url, args)]


def _content(file: Any) -> bytes:
    file.seek(0)
    content: bytes = file.read()
    return content


def _text(file: Any) -> str:
    return _content(file).decode("utf-8", "backslashreplace")


def _wait(child: Child, timeout_seconds: float) -> bool:
    """Wait for the child; true if it had to be ended. Its group is gone afterwards either way."""
    timed_out = threading.Event()

    def end(number: int) -> None:
        timed_out.set()
        _signal_group(child.pgid, number)

    watchdogs = [
        threading.Timer(timeout_seconds, end, [signal.SIGTERM]),
        threading.Timer(timeout_seconds + KILL_GRACE_SECONDS, end, [signal.SIGKILL]),
    ]
    for watchdog in watchdogs:
        watchdog.daemon = True
        watchdog.start()
    try:
        child.wait()
    finally:
        for watchdog in watchdogs:
            watchdog.cancel()
        # A transport helper that git left behind belongs to nobody any more.
        _signal_group(child.pgid, signal.SIGKILL)
    return timed_out.is_set()


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)

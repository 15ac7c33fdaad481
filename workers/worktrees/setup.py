"""Run a run's `setup` command in a fresh worktree or checkout, before anything else happens there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shared.base.command import Ended, run_command
from shared.base.errors import WorktreeError
from workers.worktrees.environment import command_environment

_TAIL_BYTES = 2048


def run_shell(
    command: str, directory: Path, log: Path, timeout_seconds: float, should_stop: Callable[[], object]
) -> Ended:
    """Run `sh -c command` in a session of its own, its output in the file `log`.

    Raises:
        WorktreeError: the shell itself cannot be started there.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        return run_command(
            ["sh", "-c", command],
            cwd=directory,
            env=command_environment(),
            output=log,
            timeout_seconds=timeout_seconds,
            should_stop=lambda: bool(should_stop()),
        )
    except OSError as error:
        raise WorktreeError(f"no command can be started in {directory}: {error}", path=str(directory)) from None


def run_setup(
    command: str | None, directory: Path, log: Path, timeout_seconds: float, should_stop: Callable[[], object]
) -> Ended | None:
    """Prepare a fresh directory; None when the run has no `setup` command.

    Raises:
        WorktreeError: the command failed or passed its deadline, with the end of what it said.
    """
    if not command:
        return None
    ended = run_shell(command, directory, log, timeout_seconds, should_stop)
    if ended.exit_status != 0:
        how = f"ended with status {ended.exit_status}"
        if ended.timed_out:
            how = f"passed its deadline of {timeout_seconds:.0f} s"
        elif ended.stopped:
            how = "was stopped"
        tail = read_tail(log, _TAIL_BYTES).decode("utf-8", "replace").strip()
        raise WorktreeError(f"the setup command {how}: {tail or 'it said nothing'}", command=command, output=tail)
    return ended


def read_tail(log: Path, limit_bytes: int) -> bytes:
    """The end of a log, at most `limit_bytes` of it."""
    with open(log, "rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - limit_bytes))
        return file.read()

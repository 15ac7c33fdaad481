"""Children that only look: started without a fork of this process.

A fork copies the page tables of the whole process, and both sides pay for every page
that is touched afterwards: 23 ms of processor time a git in a worker of 150 MB, where
git itself takes 2. `subprocess` starts a child with vfork as long as nothing of ours is to
run in it; so the kernel cannot be asked to end it with its parent. One command that
looks ends by itself, and whoever is gone misses nothing by it; a script watches the
pipe whose other end its caller holds.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Protocol

_LOOKS = frozenset({"cat-file", "for-each-ref", "ls-files", "ls-tree", "merge-base", "rev-list", "rev-parse"})
# The pipe has its end when the caller is gone: then the whole group goes. Who watches is waited for, too: an orphan is
# for the machine's first process to bury, which in a container may be a worker that buries nobody.
_WATCHING = """exec 3<&0
(read -r _ <&3; kill 0) &
watching=$!
(set -eu
{script}) </dev/null 3<&- &
wait $!
status=$?
kill $watching
wait $watching 2>/dev/null
exit $status"""


@dataclass(frozen=True)
class Files:
    """What a child reads and where its output and its messages go."""

    source: IO[bytes]
    out: IO[bytes]
    err: IO[bytes]


class Child(Protocol):
    """A child that leads its session. Shape: `exit_code` once it has ended, negative for a signal."""

    @property
    def pgid(self) -> int: ...
    @property
    def exit_code(self) -> int: ...
    def wait(self) -> object: ...


def only_looks(args: Sequence[str]) -> bool:
    """Whether a git command changes nothing, starts nothing and asks no other machine."""
    return args[0] in _LOOKS or tuple(args[:2]) == ("worktree", "list")


class Looking:
    """One command that looks.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, argv: Sequence[str], directory: str, env: dict[str, str], files: Files) -> None:
        self._popen = _spawn(argv, directory, env, files.source, files)
        self.pgid = self._popen.pid

    @property
    def exit_code(self) -> int:
        """How it ended."""
        return int(self._popen.returncode)

    def wait(self) -> None:
        """Return when it has ended."""
        self._popen.wait()


class LookingTogether(Looking):
    """A script of commands that look; it ends with this process. Raises as `Looking` does."""

    def __init__(self, script: str, directory: str, env: dict[str, str], files: Files) -> None:
        self._popen = _spawn(["sh", "-c", _WATCHING.format(script=script)], directory, env, subprocess.PIPE, files)
        self.pgid = self._popen.pid

    def wait(self) -> None:
        """Return when it has ended."""
        self._popen.wait()
        assert self._popen.stdin is not None
        self._popen.stdin.close()


def _spawn(
    argv: Sequence[str], directory: str, env: dict[str, str], source: IO[bytes] | int, files: Files
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv, cwd=directory, env=env, stdin=source, stdout=files.out, stderr=files.err, start_new_session=True
    )

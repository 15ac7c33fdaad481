"""What `crw doctor` looks at on this machine: Python, git, the state directory, the roles."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.base.reach import closed_root, find_open_root
from shared.base.settings import Settings
from shared.hub.git import GIT_AT_LEAST
from shared.model.roles import BUILT_IN_ROLES

_PYTHONS = ((3, 11), (3, 13))
_COMMAND_SECONDS = 10.0
OK, NOTE, FAILED = "ok", "note", "failed"


@dataclass(frozen=True)
class Check:
    """One thing looked at. Shape: `state` ok, note or failed; `fact` what was found; `mend` what to do about it."""

    name: str
    state: str
    fact: str
    mend: str = ""


def check_python() -> Check:
    """The interpreter and the platform that are supported."""
    version = sys.version_info[:2]
    fact = f"CPython {platform.python_version()} on {platform.system()} {platform.machine()}"
    if not _PYTHONS[0] <= version <= _PYTHONS[1] or platform.python_implementation() != "CPython":
        return Check("python", FAILED, fact, "use CPython 3.11, 3.12 or 3.13")
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        return Check("python", FAILED, fact, "use Linux on x86-64 or arm64")
    return Check("python", OK, fact)


def check_git() -> Check:
    """A git that is new enough for what the workers ask of it."""
    found = shutil.which("git")
    wanted = ".".join(map(str, GIT_AT_LEAST))
    if found is None:
        return Check("git", FAILED, "no git on PATH", f"install git {wanted} or newer")
    said = first_line([found, "--version"]) or "no answer"
    match = re.search(r"(\d+)\.(\d+)", said)
    if match is None or (int(match[1]), int(match[2])) < GIT_AT_LEAST:
        return Check("git", FAILED, said, f"install git {wanted} or newer")
    return Check("git", OK, f"{said} ({found})")


def check_state_dir(settings: Settings) -> list[Check]:
    """The state directory: writable, with room, and out of reach of what an agent may write."""
    path = settings.state_dir
    mend = "name a directory of your own with state_dir or CRW_STATE_DIR"
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        return [Check("state directory", FAILED, f"{path} cannot be written ({error.strerror})", mend)]
    return [
        Check("state directory", OK, str(path)),
        _check_space(path, settings.min_free_bytes),
        _check_reach(settings),
    ]


def _check_space(path: Path, floor: int) -> Check:
    free = shutil.disk_usage(path).free
    fact = f"{free / (1 << 30):.1f} GiB free"
    if free < floor:
        return Check(
            "disk space",
            FAILED,
            f"{fact}, below the floor of {floor / (1 << 30):.1f} GiB: a worker here claims nothing",
            "free some space ('crw flow clean RUN') or lower min_free_bytes",
        )
    return Check("disk space", OK, fact)


def _check_reach(settings: Settings) -> Check:
    found = find_open_root(settings.state_dir, settings.codex.config)
    if found is not None:
        return Check(
            "sandbox",
            FAILED,
            f"state_dir lies in reach of {found.root}, which the sandbox of a writing agent opens",
            f"move state_dir away from {found.root}, or take {found.line} out of codex.config",
        )
    closed = closed_root(settings.state_dir)
    if closed is not None:
        return Check("sandbox", NOTE, f"state_dir lies in {closed}, which workers close to their agents")
    return Check("sandbox", OK, "state_dir lies where no agent may write")


def check_roles(settings: Settings) -> Check:
    """Which roles a script may ask for."""
    with_model = {name: role for name, role in settings.roles.items() if role.model}
    without = [name for name in (*BUILT_IN_ROLES, *settings.roles) if name not in with_model]
    mend = 'write for instance [roles.executor] and below it model = "…" into crw.toml'
    if not with_model:
        return Check("roles", FAILED, "no role has a model", mend)
    fact = ", ".join(f"{name} ({role.model})" for name, role in with_model.items())
    unread = [name for name, role in with_model.items() if role.prompt and not Path(role.prompt).is_file()]
    if unread:
        return Check("roles", FAILED, f"roles.{unread[0]}.prompt names no file", "correct the path")
    if without:
        return Check("roles", NOTE, f"{fact}; without a model: {', '.join(dict.fromkeys(without))}")
    return Check("roles", OK, fact)


def first_line(argv: Sequence[str], **environment: str) -> str | None:
    """The first line that a command prints, or None when it fails."""
    try:
        env = {**os.environ, **environment}
        done = subprocess.run(list(argv), env=env, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else ""

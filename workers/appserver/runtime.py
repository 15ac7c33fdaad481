"""Which codex executable this host runs.

An explicit one (`codex.bin`) must itself work; there is no silent substitute. Else
the wheel's, else the one on PATH. Newer than what was tested is no reason to refuse:
what the server can do is seen when it is asked.
Source: Task Monki document, "Runtime resolution" and "Codex adapter responsibilities".
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from shared.base.errors import SettingsError
from shared.base.settings import CodexSettings

_VERSION_TIMEOUT_SECONDS = 20.0
_WHEEL = "codex_cli_bin"


@dataclass(frozen=True)
class Runtime:
    """An executable that answered. `origin` says where it was found: settings, wheel or path."""

    program: Path
    version: str
    origin: str


def find_codex(settings: CodexSettings) -> Runtime:
    """The executable in force, asked for its version.

    Raises:
        SettingsError: none is there, or the explicit one cannot be used.
    """
    if settings.bin is not None:
        program = Path(settings.bin).expanduser()
        if not program.is_file() or not os.access(program, os.X_OK):
            raise SettingsError(f"codex.bin names {program}, which is no executable file; correct the path or unset it")
        return Runtime(program.absolute(), read_version(program), "settings")
    for program, origin in _candidates():
        return Runtime(program, read_version(program), origin)
    raise SettingsError(
        "no codex executable was found; install it with `pip install 'crw-farm[codex]'` or name one in codex.bin"
    )


def _candidates() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    wheel = importlib.util.find_spec(_WHEEL)
    if wheel is not None and wheel.origin is not None:
        program = Path(wheel.origin).parent / "bin" / "codex"
        if program.is_file():
            found.append((program, "wheel"))
    on_path = shutil.which("codex")
    return [*found, (Path(on_path), "path")] if on_path else found


def read_version(program: Path) -> str:
    """What the executable says its version is.

    Raises:
        SettingsError: it cannot be run, or says nothing like a version.
    """
    try:
        answer = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(f"{program} cannot be run ({error}); name a working codex in codex.bin") from None
    version = re.search(r"\d+\.\d+\.\d+\S*", answer.stdout)
    if answer.returncode != 0 or version is None:
        raise SettingsError(f"{program} --version does not name a version; name a working codex in codex.bin")
    return version[0]


def version_order(version: str) -> tuple[int, ...]:
    """Sorts versions by age: `0.163.0-alpha.2` before `0.163.0-alpha.10` before `0.163.0` before `0.163.1`."""
    release, _, early = version.partition("-")
    numbers = [int(number) for number in re.findall(r"\d+", release)]
    # A number below all others stands before what is not released yet.
    return (*numbers[:3], *((-1, *map(int, re.findall(r"\d+", early))) if early else (0,)))


def read_user_agent(user_agent: str) -> str:
    """The version in `name/version (system) ...`; empty when there is none."""
    _, _, rest = user_agent.partition("/")
    return rest.split(" ", 1)[0]

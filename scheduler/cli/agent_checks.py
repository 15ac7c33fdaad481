"""What `crw doctor` looks at before a worker here runs agents: codex, its sandbox, its login."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile

from scheduler.cli.machine_checks import FAILED, NOTE, OK, Check, first_line
from shared.base.settings import Settings

try:
    import codex_cli_bin
except ImportError:  # the wheel is an extra: any codex on PATH serves as well
    codex_cli_bin = None

_LOGIN_SECONDS = 30.0


def check_agents(settings: Settings) -> list[Check]:
    """Codex, and with one its sandbox and its login."""
    codex = check_codex(settings)
    executable = find_codex(settings)
    if codex.state == FAILED or executable is None:
        return [codex]
    return [codex, check_sandbox(executable), check_login()]


def check_codex(settings: Settings) -> Check:
    """Whether a worker on this machine would find an App Server to run."""
    executable = find_codex(settings)
    mend = "pip install 'crw-farm[codex]', put codex on PATH, or set codex.bin"
    if executable is None:
        if settings.codex.bin:
            return Check("codex", FAILED, f"codex.bin names {settings.codex.bin}, which is no program", "correct it")
        return Check("codex", FAILED, "no codex found", mend)
    said = first_line([executable, "--version"])
    if said is None:
        return Check("codex", FAILED, f"{executable} does not answer --version", mend)
    return Check("codex", OK, f"{said} ({executable})")


def find_codex(settings: Settings) -> str | None:
    """The executable that the resolution order names first: `codex.bin`, the wheel's, the one on PATH."""
    if settings.codex.bin:
        return shutil.which(settings.codex.bin)
    if codex_cli_bin is not None:
        with contextlib.suppress(OSError):
            return str(codex_cli_bin.bundled_codex_path())
    return shutil.which("codex")


def check_sandbox(executable: str) -> Check:
    """Run one command in the sandbox that agents' commands run in."""
    with tempfile.TemporaryDirectory(prefix="crw-doctor-") as home:
        # Newer versions take the command at once, older ones want the platform named.
        for form in (["sandbox", "--"], ["sandbox", "linux"]):
            if first_line([executable, *form, "true"], CODEX_HOME=home) is not None:
                return Check("agents' commands", OK, "a command runs in codex's sandbox")
    return Check(
        "agents' commands",
        FAILED,
        "codex cannot run a command in its sandbox on this machine",
        "allow unprivileged user namespaces in this kernel or container",
    )


def check_login() -> Check:
    """Whether this host is logged in; a provider of one's own needs no login."""
    argv = [sys.executable, "-P", "-m", "workers.login", "--status"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_LOGIN_SECONDS, check=False)
    except subprocess.SubprocessError:
        return Check("login", NOTE, "codex does not say whether this host is logged in")
    said = " ".join((done.stdout or done.stderr).split())
    if done.returncode == 0:
        return Check("login", OK, said)
    return Check(
        "login", NOTE, said or "this host is not logged in", "'crw host login', unless the provider needs none"
    )

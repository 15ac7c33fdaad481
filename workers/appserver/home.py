"""This host's Codex home and its login.

The farm has a home of its own, so that a user's config.toml never applies to a call;
one home, one login, one server at a time. The login is made here, on this host, and
never copied: two hosts that refresh one token log each other out.
The home remembers the newest codex that served it: each version changes the schema
of its databases, and none knows how to go back.
Source: configuration boundary, "Configuration isolation"; settled conflict of the
mirrored home; rule of upgrades.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.base.errors import SettingsError
from shared.base.ids import tagged_digest
from shared.base.settings import CodexSettings
from workers.appserver.launch import plan_environment
from workers.appserver.runtime import Runtime, find_codex, version_order

_STATUS_TIMEOUT_SECONDS = 20.0


def home_path(settings: CodexSettings, state_dir: Path) -> Path:
    """Where this host's home is."""
    return (settings.home.expanduser() if settings.home else state_dir / "codex-home").absolute()


def prepare_home(settings: CodexSettings, state_dir: Path) -> Path:
    """Make the home, readable by this user alone.

    Raises:
        SettingsError: it cannot be made, or belongs to somebody else.
    """
    home = home_path(settings, state_dir)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if home.stat().st_uid != os.getuid():
            raise SettingsError(f"the Codex home {home} belongs to another user; name another one in codex.home")
        home.chmod(0o700)
    except OSError as error:
        raise SettingsError(f"the Codex home {home} cannot be made: {error.strerror}; correct codex.home") from None
    return home


def home_id(home: Path) -> str:
    """The home's own random id: a home that was emptied or replaced is another one, whatever its path."""
    file = home / "crw-home-id"
    return _read_note(file) or _write_note(file, secrets.token_hex(16))


def admit_codex(settings: CodexSettings, home: Path) -> Runtime:
    """The codex in force, which from now on is the oldest that may serve this home.

    Written down before that codex is started: it changes the home's databases as it starts.

    Writes: `crw-codex-version` in the home.
    Raises:
        SettingsError: no codex, or one that is older than what the home has seen.
    """
    runtime = find_codex(settings)
    file = home / "crw-codex-version"
    known = _read_note(file)
    if known and version_order(runtime.version) < version_order(known):
        raise SettingsError(
            f"the Codex home {home} was served by codex {known}, and {runtime.program} is the older {runtime.version}: "
            f"install {known} or newer, or name another home in codex.home"
        )
    if known != runtime.version:
        _write_note(file, runtime.version)
    return runtime


def _read_note(file: Path) -> str | None:
    try:
        return file.read_text().strip() or None
    except FileNotFoundError:
        return None


def _write_note(file: Path, text: str) -> str:
    draft = file.with_suffix(".new")
    draft.write_text(text + "\n")
    os.replace(draft, file)
    return text


def find_mcp_servers(home: Path) -> list[str]:
    """The MCP servers that the home's own config.toml names.

    Raises:
        SettingsError: the file does not parse; the App Server would run on without it.
    """
    file = home / "config.toml"
    try:
        servers = tomllib.loads(file.read_text(encoding="utf-8")).get("mcp_servers", {})
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file} does not parse: {error}; mend or remove it") from None
    return sorted(servers) if isinstance(servers, dict) else []


@dataclass(frozen=True)
class LoginState:
    """Whether somebody is logged in on this home, in codex's own words for people."""

    logged_in: bool
    description: str


def read_login_state(settings: CodexSettings, state_dir: Path) -> LoginState:
    """What `codex login status` says. Raises SettingsError when there is no codex."""
    argv, env = _login_command(settings, state_dir, "status")
    answer = subprocess.run(
        argv,
        env=env,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=_STATUS_TIMEOUT_SECONDS,
    )
    said = [line for line in (answer.stdout + answer.stderr).splitlines() if line and not line.startswith("WARNING")]
    return LoginState(answer.returncode == 0, said[-1] if said else "no login")


def login(settings: CodexSettings, state_dir: Path, *, api_key: str | None = None, device: bool = False) -> bool:
    """Log this host in, on the terminal or with an API key. Whether it worked.

    Args:
        api_key: goes to codex on its standard input, never on a command line.
        device: show a code to enter elsewhere, for a machine without a browser.

    Writes: auth.json in the home.
    Raises:
        SettingsError: no codex, or a home that cannot be made.
    """
    flags = ["--with-api-key"] if api_key is not None else ["--device-auth"] if device else []
    argv, env = _login_command(settings, state_dir, *flags)
    given = None if api_key is None else (api_key.strip() + "\n").encode()
    return subprocess.run(argv, env=env, input=given).returncode == 0


def _login_command(settings: CodexSettings, state_dir: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    home = prepare_home(settings, state_dir)
    return [str(find_codex(settings).program), "login", *arguments], plan_environment(home, settings.config)


def account_digest(home: Path) -> str | None:
    """A digest that is equal on two hosts when they share one login; None when nothing could clash.

    It is taken over the account's identity, never over a token that could be used.
    An API key may serve many hosts (nothing about it rotates), so it has no digest.
    """
    try:
        stored = json.loads((home / "auth.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    tokens: Mapping[str, Any] = (stored.get("tokens") if isinstance(stored, dict) else None) or {}
    identity = tokens.get("account_id") or tokens.get("refresh_token")
    return tagged_digest("codex-account", str(identity)).hex() if identity else None

"""Every setting of the farm, in one place.

Read from `crw.toml` (the file `CRW_CONFIG` names, else `./crw.toml`, else
`~/.config/crw/crw.toml`) with `CRW_*` variables over it; `__` goes into a table:
`CRW_CODEX__BIN`. Where neither names a database or a broker, a running `crw up` does
(`shared/base/running_farm`). Only entry points read them; what a run needs of them is copied
into the run's own record at submit, so that a host's file cannot change a run.
Source: design of the farm, "The command line".
"""

from __future__ import annotations

import difflib
import os
import socket
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariable

from shared.base.errors import SettingsError
from shared.base.kinds import Bytes, Count, Days, Directory, Identity, Name, Sandbox, Seconds
from shared.base.running_farm import load_running_farm


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RoleSettings(_Table):
    """One role: which model answers for it and what its sandbox may do."""

    model: str | None = Field(default=None, description="the model's name; no role has one built in")
    effort: str | None = Field(default=None, description="reasoning effort, for instance low, medium, high")
    sandbox: Sandbox | None = Field(default=None, description="read-only, workspace-write or danger-full-access")
    prompt: str | None = Field(default=None, description="a file with the role's instructions, relative to crw.toml")
    auto_compact_token_limit: Count | None = Field(
        default=None, description="tokens after which the thread is compacted"
    )
    network: bool = Field(default=False, description="whether the sandbox of a writing role may use the network")


class CodexSettings(_Table):
    """How this host runs its App Server."""

    bin: str | None = Field(
        default=None,
        description="an explicit codex executable; else the wheel's, else the one on PATH",
    )
    config: dict[str, Any] = Field(
        default_factory=dict, description="a table passed as -c overrides, for instance a model provider"
    )
    home: Directory | None = Field(default=None, description="this host's Codex home; default <state_dir>/codex-home")
    models: list[str] = Field(
        default_factory=list, description="the models a configured provider has; empty: any name is taken"
    )
    request_timeout_seconds: Seconds = Field(
        default=30.0, description="how long one request to the App Server may take"
    )
    local_only: bool = Field(default=True, description="apps, web search and MCP servers stay off")


class GitSettings(_Table):
    """Who makes the farm's commits."""

    author_name: Identity = Field(default="crw-farm", description="author and committer of the farm's commits")
    author_email: Identity = Field(default="crw-farm@localhost", description="their address")
    timeout_seconds: Seconds = Field(default=600.0, description="how long one git command may take")


class FlowerSettings(_Table):
    """Where Flower listens, and behind which login."""

    address: str = Field(default="127.0.0.1", description="address Flower binds")
    port: int = Field(default=5555, ge=0, le=65535, description="port Flower listens on")
    user: str = Field(default="crw", description="its login")
    password: str | None = Field(default=None, repr=False, description="its password; `crw up` makes one")


class Settings(BaseSettings):
    """All settings; `crw doctor` shows them with secrets masked."""

    model_config = SettingsConfigDict(env_prefix="CRW_", env_nested_delimiter="__", extra="forbid")

    database_url: str | None = Field(default=None, description="postgresql+psycopg2://user@host/db: the journal")
    admin_database_url: str | None = Field(
        default=None, description="the owner's URL that `crw db upgrade` uses; default database_url"
    )
    broker_url: str | None = Field(default=None, description="redis:// or redis+socket:// URL of Redis or Valkey")
    state_dir: Directory = Field(
        default=Path("~/.local/state/crw"), description="this host's directory: mirrors, worktrees, Codex home, logs"
    )
    host_name: Name = Field(default_factory=socket.gethostname, description="this host's name on the farm")
    labels: list[str] = Field(default_factory=list, description="what this host offers; runs may ask for one")
    concurrency: int = Field(default=4, ge=1, le=256, description="calls at once in the worker")
    max_runs: Count = Field(default=200, description="runs one scheduler drives at once")
    calls_at_once: Count = Field(
        default=100, description="calls of one run that wait on the broker at once; the others follow in turns"
    )
    setup: str | None = Field(default=None, description="command that prepares each fresh worktree and checkout")
    setup_timeout_seconds: Seconds = Field(default=900.0, description="how long `setup` may take")
    verify_timeout_seconds: Seconds = Field(default=3600.0, description="how long a verify command may take")
    call_deadline_seconds: Seconds = Field(default=6 * 3600.0, description="how long a call may take from its claim")
    lease_seconds: Seconds = Field(default=30.0, description="how long a worker or scheduler may stay silent")
    sweep_seconds: Seconds = Field(default=5.0, description="pause between two sweeps of a scheduler")
    poll_seconds: Seconds = Field(default=2.0, description="pause between two polls where no wake-up came")
    idle_claim_seconds: Seconds = Field(
        default=5.0, description="a worker with a free slot and no message for this long asks the journal for a call"
    )
    drain_seconds: Seconds = Field(default=20.0, description="grace of a stopping worker or scheduler")
    host_escalate_after_seconds: Seconds = Field(
        default=120.0, description="silence after which a host that a run waits for is brought to people's attention"
    )
    host_lost_after_seconds: Seconds = Field(default=1800.0, description="silence after which a host counts as lost")
    worker_crash_limit: Count = Field(default=3, description="worker deaths a call survives before it is held")
    min_free_bytes: Bytes = Field(
        default=1 << 30, description="below this much free space in state_dir the worker claims nothing"
    )
    retention_days: Days = Field(
        default=14.0, description="days after a run's end until its worktrees and refs are removed; 0: never"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="what is logged")
    codex: CodexSettings = Field(default_factory=lambda: CodexSettings())
    git: GitSettings = Field(default_factory=lambda: GitSettings())
    flower: FlowerSettings = Field(default_factory=lambda: FlowerSettings())
    roles: dict[str, RoleSettings] = Field(default_factory=dict, description="one table a role")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The file's values come in through the constructor, so the environment has to stand before it.
        return env_settings, init_settings


def config_file() -> Path | None:
    """The configuration file in force, or None.

    Raises:
        SettingsError: `CRW_CONFIG` names a file that is not there.
    """
    named = os.environ.get("CRW_CONFIG")
    if named:
        if not Path(named).is_file():
            raise SettingsError(f"CRW_CONFIG names {named}, which is no file; correct the path or unset it")
        return Path(named)
    for candidate in (Path("crw.toml"), Path("~/.config/crw/crw.toml").expanduser()):
        if candidate.is_file():
            return candidate
    return None


# Shorter names that the documentation promises beside the nested ones.
_SHORT_VARIABLES = {"CRW_CODEX_BIN": "CRW_CODEX__BIN", "CRW_CODEX_CONFIG": "CRW_CODEX__CONFIG"}


def load_settings(**overrides: Any) -> Settings:
    """The settings in force; `overrides` are a command's own options and win over everything.

    Raises:
        SettingsError: a file that does not parse, an unknown setting or a value that does not fit.
    """
    path = config_file()
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise SettingsError(f"{path} does not parse: {error}; mend it and try again") from None
        roles = values.get("roles")
        for role in roles.values() if isinstance(roles, dict) else ():
            if isinstance(role, dict) and isinstance(role.get("prompt"), str):
                role["prompt"] = str((path.parent / role["prompt"]).resolve())
    for short, nested in _SHORT_VARIABLES.items():
        if short in os.environ:
            os.environ.setdefault(nested, os.environ[short])
    try:
        settings = Settings(**_with_running_farm(values))
    except ValidationError as error:
        raise SettingsError(_refusal(error, path)) from None
    except UnreadableVariable as error:
        # Its sentence names the setting and none of the value, which may be a secret.
        raise SettingsError(
            f"{error}: a list or a table is written as JSON in a variable, for instance CRW_LABELS='[\"gpu\"]'"
        ) from None
    if overrides:
        settings = settings.model_copy(update={name: value for name, value in overrides.items() if value is not None})
    # Resolved once, here: two spellings of one directory must not be two hosts.
    settings.state_dir = _expanded(settings.state_dir).absolute()
    return settings


def _expanded(state_dir: Path) -> Path:
    """The path without its `~`.

    Raises:
        SettingsError: it names a user that this machine does not know, or can be no path.
    """
    if "\0" in str(state_dir):
        raise SettingsError(f"state_dir {str(state_dir)!r} can be no path; name another one, with CRW_STATE_DIR")
    try:
        return state_dir.expanduser()
    except RuntimeError as error:
        raise SettingsError(f"state_dir {state_dir}: {error}; name the directory in full, with CRW_STATE_DIR") from None


def _refusal(error: ValidationError, path: Path | None) -> str:
    first = error.errors()[0]
    loc = [str(part) for part in first["loc"]]
    name, where = ".".join(loc), path or "the environment"
    if first["type"] != "extra_forbidden":
        return f"setting {name}: {first['msg'].removeprefix('Value error, ')} (in {where})"
    *tables, unknown = loc
    nearest = difflib.get_close_matches(unknown, _known_keys(tables), n=1, cutoff=0.5)
    meant = ".".join([*tables, *nearest])
    mend = f"did you mean {meant}?" if nearest else "take it out, or see deploy/crw.toml.example for what there is"
    return f"there is no setting {name} (in {where}); {mend}"


def _known_keys(tables: list[str]) -> list[str]:
    """The keys of a table of the settings; a role's name may be any."""
    models: dict[str, type[BaseModel]] = {"codex": CodexSettings, "git": GitSettings, "flower": FlowerSettings}
    model = models.get(tables[0], RoleSettings) if tables else Settings
    return list(model.model_fields)


def _with_running_farm(values: dict[str, Any]) -> dict[str, Any]:
    """The file's values over those of a `crw up` on this state directory, unless a farm is configured already."""
    if any(name in values or f"CRW_{name.upper()}" in os.environ for name in ("database_url", "broker_url")):
        return values
    default = Settings.model_fields["state_dir"].default
    state_dir = os.environ.get("CRW_STATE_DIR") or values.get("state_dir") or default
    if not isinstance(state_dir, (str, Path)):
        # Refused with the file's other values.
        return values
    return _merged(load_running_farm(_expanded(Path(state_dir))), values)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict) and isinstance(above[name], dict):
            both[name] = _merged(below[name], above[name])
    return both

"""How the App Server is started: its arguments and its environment. Pure.

Source: design of the farm, "The command line" (`codex.config`); facts of the App
Server, "CODEX_HOME"; Task Monki document, "Codex adapter responsibilities".
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from shared.base.errors import SettingsError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

# What a command line, a certificate store and a proxy need; everything else, the
# farm's own settings first of all, is nobody's business down there.
_KEPT_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "CODEX_CA_CERTIFICATE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    }
)
_KEPT_PREFIX = "LC_"

# What a call has no use for, or what would go on after its turn has ended: a subagent
# or a goal edits the worktree behind a snapshot that says it is final.
_ALWAYS: dict[str, Any] = {
    "features": {"multi_agent": False, "goals": False, "hooks": False},
    "sandbox_workspace_write": {"exclude_slash_tmp": True, "exclude_tmpdir_env_var": True},
    "shell_environment_policy": {"ignore_default_excludes": False},
}
_LOCAL_ONLY: dict[str, Any] = {
    "features": {"apps": False, "plugins": False, "remote_plugin": False},
    "web_search": "disabled",
}


def toml_value(value: Any) -> str:
    """A value as TOML on one line.

    Raises:
        SettingsError: TOML has no form for it.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(toml_value(member) for member in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(name)}={toml_value(member)}" for name, member in value.items()) + "}"
    raise SettingsError(f"codex.config holds a {type(value).__name__}, which cannot be passed on; remove it")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's, but for pairs of surrogates, which TOML has not, and DEL, which it wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def override_arguments(config: Mapping[str, Any]) -> list[str]:
    """`-c` arguments for a nested table, one for each value.

    A table with a key that is no bare word is passed whole: the server does not read
    quoted parts of a dotted key.
    """
    return [part for name, value in _flatten(config, "") for part in ("-c", f"{name}={toml_value(value)}")]


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if not _BARE_KEY.fullmatch(name):
            raise SettingsError(f"codex.config: the key {prefix}{name!r} cannot be passed on; use letters, digits, _ -")
        nested = isinstance(value, Mapping) and value and all(_BARE_KEY.fullmatch(key) for key in value)
        if nested:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def plan_arguments(config: Mapping[str, Any], *, local_only: bool, mcp_servers: Iterable[str] = ()) -> list[str]:
    """The arguments after the program's name.

    Args:
        config: `codex.config`; it wins, so that what it opts into is opted into.
        mcp_servers: those the home names; each is switched off unless `config` configures it.
    """
    chosen = config.get("mcp_servers", {})
    off = {name: {"enabled": False} for name in mcp_servers if name not in chosen} if local_only else {}
    # One table, not one after the other: a table that is passed whole replaces what stood there before (measured).
    table: dict[str, Any] = {}
    for part in (_ALWAYS, _LOCAL_ONLY if local_only else {}, {"mcp_servers": off} if off else {}, config):
        table = _merged(table, part)
    return ["app-server", *override_arguments(table)]


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        known = merged.get(name)
        merged[name] = _merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return merged


def find_unasked_servers(effective: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """The MCP servers that the running server has enabled and `codex.config` does not name."""
    servers = effective.get("mcp_servers") or {}
    enabled = [name for name, server in servers.items() if server.get("enabled", True)]
    return sorted(set(enabled) - set(config.get("mcp_servers") or {}))


def plan_environment(home: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """The whole environment of a codex process: an allow list, the home, and the keys providers are told to read."""
    kept = _KEPT_VARIABLES | frozenset(_provider_variables(config))
    passed = {name: text for name, text in os.environ.items() if name in kept or name.startswith(_KEPT_PREFIX)}
    return {**passed, "CODEX_HOME": str(home)}


def _provider_variables(config: Mapping[str, Any]) -> Iterator[str]:
    providers = config.get("model_providers")
    for provider in providers.values() if isinstance(providers, Mapping) else ():
        if isinstance(provider, Mapping):
            if isinstance(provider.get("env_key"), str):
                yield provider["env_key"]
            headers = provider.get("env_http_headers")
            yield from headers.values() if isinstance(headers, Mapping) else ()

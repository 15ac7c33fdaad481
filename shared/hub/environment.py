"""The environment of every git command: the caller's repository does not leak in, settings do not vary.

All `GIT_*` variables are dropped but those that say how to reach and authenticate
to a server; that covers everything `git rev-parse --local-env-vars` lists. User and
system configuration stay readable for the same reason (credential helpers, proxies,
`insteadOf`), but what could change a tree, a commit or a merge is fixed here, so
that two hosts make the same objects. Source: App Server document, "Working directories".
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_TRANSPORT = (
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_ASKPASS",
    "GIT_EXEC_PATH",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
)
_TRANSPORT_PREFIXES = ("GIT_SSL_", "GIT_HTTP_", "GIT_PROXY_")

# Highest precedence: neither the user's nor the mirror's own file wins over these.
SETTINGS: Mapping[str, str] = {
    # Durable: a row may name what these objects hold.
    "core.fsync": "all",
    # Loose objects of one command are made durable together: 2000 new files took 2000 flushes.
    "core.fsyncMethod": "batch",
    # Nothing is removed behind our back: a tree may be named by a row only a moment later.
    "gc.auto": "0",
    "maintenance.auto": "false",
    # No program of the repository's or the user's runs.
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "protocol.ext.allow": "never",
    "credential.interactive": "never",
    # Commits are functions of rows.
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "i18n.commitEncoding": "UTF-8",
    # Trees are functions of files: only what lies in the repository ignores or converts.
    "core.excludesFile": os.devnull,
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.eol": "lf",
    "core.safecrlf": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    # Merges are functions of commits.
    "merge.conflictStyle": "merge",
    "merge.default": "text",
    "merge.renames": "true",
    "merge.directoryRenames": "conflict",
    "merge.renameLimit": "7000",
    "merge.renormalize": "false",
    "merge.verifySignatures": "false",
    "rerere.enabled": "false",
    # Transport does what it is told and no more.
    "protocol.version": "2",
    "fetch.prune": "false",
    "fetch.pruneTags": "false",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.recurseSubmodules": "no",
    "color.ui": "false",
}


def git_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for one git command; `extra` (an index file, dates) goes on top."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _TRANSPORT or name.startswith(_TRANSPORT_PREFIXES)
    }
    environment.update(
        LC_ALL="C",
        GIT_TERMINAL_PROMPT="0",
        GIT_OPTIONAL_LOCKS="0",
        GIT_NO_REPLACE_OBJECTS="1",
        GIT_ATTR_NOSYSTEM="1",
        GIT_EDITOR="true",
        GIT_PAGER="cat",
        GIT_CONFIG_COUNT=str(len(SETTINGS)),
    )
    for index, (key, value) in enumerate(SETTINGS.items()):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    environment.update(extra or {})
    return environment

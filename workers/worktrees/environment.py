"""The environment of a command that a repository or a script brings: an allow list, never what is left of a deny list.

What says where tools and their caches are goes in; settings of the farm, the Codex
home and credentials do not, because they are not named here.
"""

from __future__ import annotations

import os

_LISTED = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM TMPDIR LD_LIBRARY_PATH PKG_CONFIG_PATH
    JAVA_HOME GOROOT GOPATH GOCACHE GOMODCACHE GOFLAGS GOTOOLCHAIN CARGO_HOME RUSTUP_HOME
    NVM_DIR NODE_PATH PYENV_ROOT VIRTUAL_ENV UV_CACHE_DIR PIP_CACHE_DIR XDG_CACHE_HOME XDG_CONFIG_HOME
    SSL_CERT_FILE SSL_CERT_DIR NIX_PATH NIX_SSL_CERT_FILE
"""
_NAMES = frozenset(_LISTED.split())


def command_environment() -> dict[str, str]:
    """The variables that `setup` and verify commands get."""
    return {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith("LC_")}

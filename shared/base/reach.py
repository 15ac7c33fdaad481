"""Whether an agent's sandbox, as this host is configured, could write to the farm's own state.

A writing sandbox opens the agent's directory, the roots that are named, and `/tmp` and
`$TMPDIR` unless both are excluded, which every worker asks for by itself. What the
server made of it is known for each thread only, and compared there; what stands in the
configuration is known before anything starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TABLE = "sandbox_workspace_write"


@dataclass(frozen=True)
class OpenRoot:
    """A directory that a writing sandbox opens, and the line of `codex.config` that opens it."""

    root: str
    line: str


def find_open_root(state_dir: Path, codex_config: Mapping[str, Any]) -> OpenRoot | None:
    """The configured writable root in which `state_dir` lies, or that lies in it; None when there is none."""
    table = codex_config.get(_TABLE)
    options: Mapping[str, Any] = table if isinstance(table, dict) else {}
    roots = options.get("writable_roots")
    named = [root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []
    opened = [OpenRoot(root, f"writable_roots = [{root!r}]") for root in named]
    opened += [OpenRoot(root, f"{option} = false") for root, option in _temporary() if options.get(option) is False]
    state = Path(os.path.realpath(state_dir))
    return next((one for one in opened if _touches(state, Path(os.path.realpath(one.root)))), None)


def closed_root(state_dir: Path) -> str | None:
    """The directory for temporary files in which `state_dir` lies, which workers close to their agents."""
    return next((root for root, _ in _temporary() if state_dir.is_relative_to(Path(root).absolute())), None)


def _temporary() -> list[tuple[str, str]]:
    pairs = (("/tmp", "exclude_slash_tmp"), (os.environ.get("TMPDIR"), "exclude_tmpdir_env_var"))
    return [(root, option) for root, option in pairs if root]


def _touches(state: Path, root: Path) -> bool:
    return state.is_relative_to(root) or root.is_relative_to(state)

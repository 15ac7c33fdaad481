"""What a repository says to agents (AGENTS.md), handed on by us.

Threads run with their directory untrusted, so that nothing a repository carries
under `.codex` (MCP servers, hooks, settings) runs on a host. The server then passes
over the repository's AGENTS.md too (measured), which every agent should know: it
goes with the role's instructions instead.
Source: configuration boundary, "Configuration isolation" (instructions still apply).
"""

from __future__ import annotations

from pathlib import Path

_NAMES = ("AGENTS.override.md", "AGENTS.md")
# What the server itself would take of it.
_KEPT_BYTES = 32 * 1024


def load_instructions(role_instructions: str, cwd: str) -> str:
    """The role's instructions, and behind them what the repository at `cwd` says."""
    found = _read_repository(Path(cwd))
    if found is None:
        return role_instructions
    name, text = found
    return f"{role_instructions}\n\n# Instructions of this repository ({name})\n\n{text}".lstrip()


def _read_repository(root: Path) -> tuple[str, str] | None:
    for name in _NAMES:
        file = root / name
        try:
            # A link that leads out of the worktree is no instruction of the repository.
            if not file.resolve().is_relative_to(root.resolve()):
                continue
            with open(file, "rb") as source:
                text = source.read(_KEPT_BYTES).decode("utf-8", "replace").strip()
        except OSError:
            continue
        if text:
            return name, text
    return None

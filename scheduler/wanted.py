"""A run as somebody asks for it, before anything of it is checked against the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from shared.base.errors import UsageError

BACKENDS = ("app-server",)


@dataclass(frozen=True)
class Wanted:
    """The arguments of `Farm.submit`. `repo` is a path or URL; what is None takes its default."""

    script: str | Path
    repo: str
    base: str | None = None
    target: str | None = None
    args: Any = field(default_factory=dict)
    key: str | None = None
    label: str | None = None
    max_turns: int | None = None
    trust_effects: bool = False
    backend: str = BACKENDS[0]


MEMBERS = tuple(member.name for member in fields(Wanted))
_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "script": ((str, Path), "a file name"),
    "repo": ((str, Path), "a path or URL"),
    "base": (str, "a branch, tag or commit"),
    "target": (str, "a branch"),
    "key": (str, "a text"),
    "label": (str, "a text"),
    "max_turns": (int, "a number"),
    "trust_effects": (bool, "true or false"),
    "backend": (str, "a backend's name"),
}


def parse_wanted(members: Mapping[str, Any], where: str) -> Wanted:
    """A run given by its members; `where` says in a refusal which one it is.

    Raises:
        UsageError: an unknown member, one of another type, or no script or repository.
    """
    unknown = [name for name in members if name not in MEMBERS]
    if unknown:
        raise UsageError(f"{where}: there is no member {unknown[0]!r}; use {', '.join(MEMBERS)}")
    for name, (kind, words) in _TYPES.items():
        given = members.get(name)
        if given is not None and (not isinstance(given, kind) or (kind is int and isinstance(given, bool))):
            raise UsageError(f"{where}: {name} is {words}, not {given!r}")
    for name in ("script", "repo"):
        if not members.get(name):
            raise UsageError(f"{where}: {name} is missing; every run needs a script and a repo")
    given = {name: value for name, value in members.items() if value is not None or name == "args"}
    return Wanted(**{**given, "repo": str(members["repo"])})

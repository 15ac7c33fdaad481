"""JSON as a person writes it for the farm: what Python's reader lets pass, and JSON does not mean, is refused."""

from __future__ import annotations

import json
from typing import Any


def load_strict(text: str | bytes) -> Any:
    """A JSON text as a value.

    Raises:
        ValueError: it is no JSON (json.JSONDecodeError), holds NaN or an infinity, or names a member twice.
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_members)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        # Which one counts is the reader's choice in JSON: a person has to say it.
        raise ValueError(f"the member {twice!r} stands twice in one object, keep one of them")
    return found


def _refuse_constant(token: str) -> Any:
    raise ValueError(f"{token} is no JSON value")

"""Which members of an input are not the recorded ones, and what stood and stands in them. Pure.

The digest says that an input differs; the members recorded beside it say where. Long
texts are compared and shown by their digests.
Source: journal document, "The resume walk" (c).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.base.canonical import digest_json, digest_text

# No part of the input: digests, words for people, and what the run itself adds.
_NOT_COMPARED = frozenset({"input_digest", "prompt_digest", "label", "lineage", "boundary", "input_snapshot", "reason"})
# Where a conversation happens to be is no part of what it is.
_NOT_OF_CONTEXT = frozenset({"call", "host", "how"})
_SHOWN_CHARACTERS = 80


def differing(recorded: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Member -> `[recorded, now]`, short enough to be shown; of a conversation its own members by `context.<name>`."""
    found: dict[str, list[Any]] = {}
    for name in sorted(detail.keys() - _NOT_COMPARED):
        before, now = recorded.get(name), detail.get(name)
        if name == "prompt" and before is None and recorded.get("prompt_digest") is not None:
            # A run is loaded without its long prompts.
            before = recorded["prompt_digest"]
            now = now if detail.get("prompt_digest") != before else before
        if name == "context" and isinstance(before, Mapping) and isinstance(now, Mapping):
            found |= _of_context(before, now)
        elif before != now:
            found[name] = [_shown(before), _shown(now)]
    return found


def _of_context(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[Any]]:
    names = sorted((before.keys() | now.keys()) - _NOT_OF_CONTEXT)
    changed = {name: [before.get(name), now.get(name)] for name in names if before.get(name) != now.get(name)}
    return {f"context.{name}": pair for name, pair in changed.items()}


def _shown(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _SHOWN_CHARACTERS:
        return digest_text(value)
    if isinstance(value, (Mapping, list)):
        try:
            return value if len(str(value)) <= _SHOWN_CHARACTERS else digest_json(value)
        except (TypeError, ValueError):
            return str(value)[:_SHOWN_CHARACTERS]
    return value

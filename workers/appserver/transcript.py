"""What a turn said and did, as plain data that is kept with the call. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workers.appserver.record import shorten

_MESSAGE_KEPT_CHARACTERS = 65_536
_DIFF_KEPT_CHARACTERS = 16_384


def make_transcript(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a turn in their order.

    Shape of an entry, by `kind`:
        input, message: text, and for a message its phase.
        command: command, cwd, status, exit_status, seconds, output (its two ends).
        files: changes, each path, kind and diff.
        other: type, for everything that has no form of its own here.
    """
    return [_entry(item) for item in items]


def _entry(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = item.get("type")
    if kind == "agentMessage":
        text = shorten(str(item.get("text") or ""), _MESSAGE_KEPT_CHARACTERS)
        return {"kind": "message", "phase": item.get("phase"), "text": text}
    if kind == "userMessage":
        parts = [part.get("text", "") for part in item.get("content") or [] if part.get("type") == "text"]
        return {"kind": "input", "text": shorten("\n".join(parts), _MESSAGE_KEPT_CHARACTERS)}
    if kind == "commandExecution":
        milliseconds = item.get("durationMs")
        return {
            "kind": "command",
            "command": str(item.get("command") or ""),
            "cwd": item.get("cwd"),
            "status": item.get("status"),
            "exit_status": item.get("exitCode"),
            "seconds": milliseconds / 1000 if isinstance(milliseconds, int | float) else None,
            "output": shorten(str(item.get("aggregatedOutput") or "")),
        }
    if kind == "fileChange":
        return {
            "kind": "files",
            "status": item.get("status"),
            "changes": [_change(c) for c in item.get("changes") or []],
        }
    return {"kind": "other", "type": kind}


def _change(change: Mapping[str, Any]) -> dict[str, Any]:
    kind = change.get("kind")
    return {
        "path": change.get("path"),
        "kind": kind.get("type") if isinstance(kind, Mapping) else kind,
        "diff": shorten(str(change.get("diff") or ""), _DIFF_KEPT_CHARACTERS),
    }

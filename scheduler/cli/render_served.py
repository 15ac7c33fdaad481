"""A host's App Server and its account, as lines and JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from scheduler.cli.output import duration
from shared.journal.serving import LimitState, ServerState


def server_words(server: ServerState | None, now: datetime) -> str:
    """The newest App Server of a host: how long it is up, or why and how long ago it ended; empty for none."""
    if server is None:
        return ""
    if server.up:
        return f"up {duration((now - server.started_at).total_seconds())}"
    if server.ended_at is None:
        return "ended with its worker"
    return f"{server.reason}, {duration((now - server.ended_at).total_seconds())} ago"


def limit_words(limits: Sequence[LimitState], now: datetime) -> str:
    """The fullest window of a host's account; empty when none is known."""
    if not limits:
        return ""
    fullest = limits[0]
    words = f"{fullest.used_percent:.0f}%"
    if fullest.resets_at is not None:
        words += f", resets in {duration((fullest.resets_at - now).total_seconds())}"
    return words


def served_record(server: ServerState | None, limits: Sequence[LimitState]) -> dict[str, Any]:
    """Both as members of a host's JSON object."""
    return {
        "app_server": _plain(asdict(server)) if server is not None else None,
        "limits": [_plain(asdict(limit)) for limit in limits],
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    said = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}
    said.pop("host")
    return said

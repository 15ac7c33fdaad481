"""What turns cost, why they failed, and how much of the account is left. Pure.

The server counts tokens over a thread's life and repeats old counts after a resume
or a fork; a turn's own usage is its last total minus what the thread had before the
turn's first model response. Source: configuration boundary ("cumulative usage
subtracts the baseline"); facts of the App Server, "Usage and rate limits".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.model.failure_class import CONTEXT_CODE, OVERLOADED_CODES, POLICY_CODES, QUOTA_CODES


@dataclass(frozen=True)
class Usage:
    """Tokens. `cached` is a part of `input`, `reasoning` a part of `output`."""

    input: int = 0
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    total: int = 0

    @classmethod
    def read(cls, counts: Mapping[str, Any]) -> Usage:
        """From one `total` or `last` member of the protocol."""
        names = ("inputTokens", "cachedInputTokens", "outputTokens", "reasoningOutputTokens", "totalTokens")
        return cls(*(int(counts.get(name) or 0) for name in names))

    def minus(self, other: Usage) -> Usage:
        """The difference, member by member."""
        return Usage(
            self.input - other.input,
            self.cached - other.cached,
            self.output - other.output,
            self.reasoning - other.reasoning,
            self.total - other.total,
        )

    def to_json(self) -> dict[str, int]:
        """Plain data for a row."""
        return {
            "input": self.input,
            "cached": self.cached,
            "output": self.output,
            "reasoning": self.reasoning,
            "total": self.total,
        }


class UsageMeter:
    """The usage of one turn, from the updates that carry its id.

    Updates inside a compaction repeat a count or carry the size of the context, so
    they set neither baseline nor total; what the compaction cost is in the next total.
    """

    def __init__(self) -> None:
        self._baseline: Usage | None = None
        self._total: Usage | None = None

    def take(self, token_usage: Mapping[str, Any], *, compacting: bool) -> None:
        """One `thread/tokenUsage/updated` of the turn."""
        if compacting:
            return
        total = Usage.read(token_usage.get("total") or {})
        if self._baseline is None:
            self._baseline = total.minus(Usage.read(token_usage.get("last") or {}))
        self._total = total

    @property
    def usage(self) -> Usage | None:
        """What the turn has used so far; None while nothing was reported (a failed turn may report nothing)."""
        if self._total is None or self._baseline is None:
            return None
        return self._total.minus(self._baseline)


@dataclass(frozen=True)
class TurnError:
    """Why a turn failed.

    Shape: `reason` is one of `quota`, `overloaded`, `context`, `auth`, `policy`, `sandbox`,
    `other`; `info` the server's code with its HTTP status, if any; `message` for people only.
    """

    reason: str
    info: str | None
    http_status: int | None
    message: str


def read_turn_error(error: Mapping[str, Any] | None) -> TurnError | None:
    """The error of a failed turn. The reason never comes from the message's text, which differs by version."""
    if not error:
        return None
    info, status = _read_info(error.get("codexErrorInfo"))
    return TurnError(_reason(info, status), info, status, str(error.get("message") or ""))


def _read_info(info: Any) -> tuple[str | None, int | None]:
    if isinstance(info, str):
        return info, None
    if isinstance(info, Mapping) and len(info) == 1:
        name, facts = next(iter(info.items()))
        return str(name), facts.get("httpStatusCode") if isinstance(facts, Mapping) else None
    return None, None


def _reason(info: str | None, status: int | None) -> str:
    if info in QUOTA_CODES:
        return "quota"
    if info == CONTEXT_CODE:
        return "context"
    if info == "unauthorized" or status in (401, 403):
        return "auth"
    if info in POLICY_CODES:
        return "policy"
    if info == "sandboxError":
        return "sandbox"
    if info in OVERLOADED_CODES or status == 429 or (status or 0) >= 500:
        return "overloaded"
    return "other"


def merge_rate_limits(known: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """A sparse snapshot over what was known: null means unknown, never recovered."""
    return {**known, **{name: value for name, value in update.items() if value is not None}}


@dataclass(frozen=True)
class Window:
    """What is used of one window of the account. Shape: `resets_at` seconds since 1970."""

    limit_id: str
    used_percent: float
    window_minutes: int | None
    resets_at: float | None


def read_windows(known: Mapping[str, Any]) -> list[Window]:
    """The windows of a merged snapshot that say how much of them is used."""
    found = []
    for name in ("primary", "secondary"):
        window = known.get(name)
        if not isinstance(window, Mapping) or not isinstance(window.get("usedPercent"), int | float):
            continue
        limit_id = f"{known['limitId']}/{name}" if known.get("limitId") else name
        found.append(Window(limit_id, window["usedPercent"], window.get("windowDurationMins"), window.get("resetsAt")))
    return found

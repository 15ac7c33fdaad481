"""How a turn fails: the codes that the real server makes of what a provider answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HTTP_FAILURES: dict[int, Any] = {
    400: "other",
    401: {"httpConnectionFailed": {"httpStatusCode": 401}},
    429: {"responseTooManyFailedAttempts": {"httpStatusCode": 429}},
    500: "internalServerError",
    503: "internalServerError",
}
_CODES = {
    "context_length_exceeded": "contextWindowExceeded",
    "insufficient_quota": "usageLimitExceeded",
    "usage_limit_reached": "usageLimitExceeded",
    "rate_limit_exceeded": "rateLimitExceeded",
    "server_is_overloaded": "serverOverloaded",
}


class Failed(Exception):
    """The model's side failed. `info` is the codexErrorInfo."""

    def __init__(self, info: Any, message: str) -> None:
        super().__init__(message)
        self.info = info


def http_failure(step: Mapping[str, Any]) -> Failed:
    """The failure of a step that answers with a status."""
    error = (step.get("body") or {}).get("error") or {}
    code = error.get("type") if error.get("type") in _CODES else error.get("code")
    info = _CODES.get(str(code)) or _HTTP_FAILURES.get(step["http"], "other")
    return Failed(info, str(error.get("message") or f"unexpected status {step['http']}"))


def stream_failure(failed: Mapping[str, Any]) -> Failed:
    """The failure of a step whose stream ends in `response.failed`."""
    return Failed(_CODES.get(str(failed.get("code")), "other"), str(failed.get("message") or ""))

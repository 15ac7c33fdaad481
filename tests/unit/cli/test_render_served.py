"""A host's App Server and its account in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.cli.render_served import limit_words, served_record, server_words
from shared.journal.serving import LimitState, ServerState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def server(**changes: Any) -> ServerState:
    values: dict[str, Any] = {"started_at": NOW - timedelta(minutes=5), "ended_at": None, "reason": None, "up": True}
    return ServerState(
        host="h1", generation="g1", pid=7, codex_path="/codex", codex_version="0.163.0", **{**values, **changes}
    )


@pytest.mark.req("DEF16")
@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (None, ""),
        (server(), "up 5m00s"),
        (server(up=False), "ended with its worker"),
        (server(up=False, ended_at=NOW - timedelta(seconds=9), reason="exit status -9"), "exit status -9, 9s ago"),
    ],
)
def test_a_server_is_up_or_says_why_it_is_not(shown: ServerState | None, words: str) -> None:
    assert server_words(shown, NOW) == words


@pytest.mark.req("DEF16")
def test_the_fullest_window_is_said_with_its_reset() -> None:
    full = LimitState("h1", "primary", 97.0, 300, NOW + timedelta(minutes=2), NOW)
    assert limit_words([full, LimitState("h1", "secondary", 5.0, None, None, NOW)], NOW) == "97%, resets in 2m00s"
    assert limit_words([], NOW) == ""
    record = served_record(server(), [full])
    assert record["app_server"]["pid"] == 7 and record["limits"][0]["resets_at"] == "2026-01-01T12:02:00+00:00"
    assert served_record(None, ()) == {"app_server": None, "limits": []}

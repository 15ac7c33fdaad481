"""What a refusal says about a thread: the texts are the real server's."""

from __future__ import annotations

import pytest

from shared.base.errors import Refused
from workers.appserver import has_no_line, why_gone
from workers.appserver.rpc import read_error

# Three such paths in one sentence, and what is wrong stands behind the last.
_PATH = f"/{'state/' * 20}codex-home/sessions/2026/12/01/rollout-2026-12-01T12-32-52-01a23197.jsonl"
_UNREAD = (
    f"failed to read thread: thread-store internal error: failed to read session metadata {_PATH}: thread-store "
    f"internal error: failed to read session metadata {_PATH}: rollout at {_PATH}"
)


@pytest.mark.req("R35")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no rollout found for thread id 01a2", "thread_missing"),
        (f"{_UNREAD} is empty", "thread_missing"),
        (f"{_UNREAD} does not start with session metadata", "thread_unreadable"),
        ("invalid paginated history lineage for 01a2: missing source rollout", "thread_missing"),
        (
            "failed to prepare paginated fork: thread-store internal error: durable rollout shrank before projection",
            "thread_unreadable",
        ),
        ("session 01a2 is archived", "thread_archived"),
        ("turn not found: 01a3", "turn_missing"),
        ("failed to load configuration: invalid type", None),
    ],
)
def test_a_thread_that_cannot_be_gone_on_in_is_told_from_any_other_refusal(text: str, why: str | None) -> None:
    refusal = read_error("thread/fork", {"code": -32603, "message": text})
    assert isinstance(refusal, Refused) and why_gone(refusal) == why
    assert has_no_line(refusal) == text.endswith("is empty")


def test_a_long_refusal_is_short_for_people_and_says_what_is_wrong() -> None:
    said = str(read_error("thread/fork", {"code": -32603, "message": f"{_UNREAD} is empty"}))
    assert said.endswith("is empty") and "failed to read thread" in said and len(said) < 600

"""A turn's events folded: usage, order, output, compaction."""

from __future__ import annotations

from typing import Any

import pytest

from workers.appserver.limits import Usage, merge_rate_limits, read_turn_error
from workers.appserver.record import OUTPUT_KEPT_CHARACTERS, TurnRecord


def _usage(total: int, last: int) -> dict[str, Any]:
    counts = {"inputTokens": 0, "outputTokens": 0}
    return {"tokenUsage": {"total": {"totalTokens": total, **counts}, "last": {"totalTokens": last, **counts}}}


def _item(kind: str, number: str, **members: Any) -> dict[str, Any]:
    return {"item": {"type": kind, "id": number, **members}}


def _ended(record: TurnRecord, **turn: Any) -> None:
    record.take("turn/completed", {"turn": {"status": "completed", **turn}})


@pytest.mark.req("C29", "K62")
def test_usage_is_what_came_after_the_first_baseline() -> None:
    record = TurnRecord("t", "u")
    record.take("thread/tokenUsage/updated", _usage(500, 100))
    record.take("thread/tokenUsage/updated", _usage(650, 150))
    _ended(record)
    assert record.end is not None and record.end.usage == Usage(total=250)


@pytest.mark.req("K62")
def test_updates_inside_a_compaction_are_not_counted_twice() -> None:
    record = TurnRecord("t", "u")
    record.take("thread/tokenUsage/updated", _usage(100, 100))
    record.take("item/started", _item("contextCompaction", "c"))
    record.take("thread/tokenUsage/updated", _usage(130, 99_999))
    record.take("item/completed", _item("contextCompaction", "c"))
    record.take("thread/tokenUsage/updated", _usage(180, 50))
    _ended(record)
    assert record.end is not None and record.end.usage == Usage(total=180)


def test_no_report_is_no_usage() -> None:
    record = TurnRecord("t", "u")
    _ended(record)
    assert record.end is not None and record.end.usage is None


@pytest.mark.req("K29")
def test_an_item_that_is_repeated_stands_where_it_came_last() -> None:
    record = TurnRecord("t", "u")
    for number in ("1", "2", "1"):
        record.take("item/completed", _item("agentMessage", number, text=number))
    _ended(record)
    assert record.end is not None
    assert [item["id"] for item in record.end.items] == ["2", "1"]


@pytest.mark.req("K29")
def test_an_error_that_the_server_tries_again_after_decides_nothing() -> None:
    record = TurnRecord("t", "u")
    record.take("error", {"willRetry": True, "error": {"message": "gone", "codexErrorInfo": "usageLimitExceeded"}})
    assert record.end is None
    record.take("item/completed", _item("agentMessage", "1", text="done"))
    _ended(record)
    assert record.end is not None and (record.end.status, record.end.error) == ("completed", None)
    failing = TurnRecord("t", "v")
    failing.take("error", {"willRetry": True, "error": {"message": "gone", "codexErrorInfo": "usageLimitExceeded"}})
    failing.take("error", {"willRetry": False, "error": {"message": "busy", "codexErrorInfo": "serverOverloaded"}})
    _ended(failing, status="failed")
    assert failing.end is not None and failing.end.error is not None and failing.end.error.reason == "overloaded"


def test_progress_names_the_command_that_runs_and_the_last_message() -> None:
    record = TurnRecord("t", "u")
    record.take("item/completed", _item("agentMessage", "1", text="looking"))
    record.take("item/started", _item("commandExecution", "2", command="make test"))
    assert (record.progress.message, record.progress.command) == ("looking", "make test")
    record.take("item/completed", _item("commandExecution", "2", command="make test", aggregatedOutput="x" * 100_000))
    assert record.progress.command is None
    _ended(record)
    assert record.end is not None
    assert len(record.end.items[1]["aggregatedOutput"]) < OUTPUT_KEPT_CHARACTERS + 100


def test_unknown_events_items_and_members_are_passed_over() -> None:
    record = TurnRecord("t", "u")
    record.take("turn/moderationMetadata", {"x": 1})
    record.take("item/completed", _item("somethingNew", "1", member=[1]))
    _ended(record, status="aVeryNewStatus", extra=1)
    assert record.end is not None and record.end.status == "aVeryNewStatus"


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ("usageLimitExceeded", "quota"),
        ("serverOverloaded", "overloaded"),
        ("contextWindowExceeded", "context"),
        ("unauthorized", "auth"),
        ({"httpConnectionFailed": {"httpStatusCode": 401}}, "auth"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "overloaded"),
        ({"responseStreamDisconnected": {"httpStatusCode": None}}, "other"),
        ("cyberPolicy", "policy"),
        ("aCodeOfTomorrow", "other"),
        ({"one": 1, "two": 2}, "other"),
        (None, "other"),
    ],
)
def test_the_reason_of_a_failure_comes_from_its_code(info: Any, reason: str) -> None:
    error = read_turn_error({"message": "You've hit your usage limit", "codexErrorInfo": info})
    assert error is not None and error.reason == reason


def test_an_unknown_window_is_no_recovered_window() -> None:
    known = merge_rate_limits({}, {"primary": {"usedPercent": 100}, "secondary": None})
    assert merge_rate_limits(known, {"primary": None, "planType": "pro"}) == {
        "primary": {"usedPercent": 100},
        "planType": "pro",
    }

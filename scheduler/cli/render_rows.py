"""Rows as a follower prints them: one line, or one JSON object, a row. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import asdict

from scheduler.cli.output import count, one_line, time_of_day
from scheduler.cli.view import CallView, lane_name
from scheduler.outcome import end_words
from shared.model.events import TERMINAL_WORDS
from shared.model.rows import CallRow, EventRow, Row

_TEXT_WIDTH = 120
# What a person who follows a run needs no line for: the row before or after it says the same.
_UNSAID = frozenset(
    {
        "user_message_seen",
        "thread_requested",
        "turn_started",
        "clock",
        "push_requested",
        "join_settled",
    }
)

_DRIVEN = {"resume": "resumed", "takeover": "taken over by another scheduler"}


def row_record(row: Row) -> dict[str, Any]:
    """A row as a JSON object: the columns that have a value, `detail` or `data` as they are."""
    values = {name: value for name, value in asdict(row).items() if value is not None and name != "result"}
    values["written_at"] = row.written_at.isoformat()
    return {"table": "flow_calls" if isinstance(row, CallRow) else "flow_events", **values}


def row_line(row: Row) -> str | None:
    """A row as a line for a person, or None when it is not worth one."""
    word = row.event if isinstance(row, CallRow) else row.kind
    if word in _UNSAID:
        return None
    lane = lane_name(row.path or "main")
    text = _call_words(row) if isinstance(row, CallRow) else _event_words(row)
    return f"{time_of_day(row.written_at)}  {lane:<14} {text}".rstrip()


def doing_line(call: CallView, doing: str) -> str:
    """What an agent does, in the form of a row's line; the time is that of whoever follows."""
    return f"{time_of_day(datetime.now().astimezone())}  {call.lane:<14} {call.name:<12} {one_line(doing, _TEXT_WIDTH)}"


def _call_words(row: CallRow) -> str:
    name = (row.role or row.kind) if row.kind == "agent" else row.kind
    words = [f"{name:<12} {row.event}"]
    reason = row.detail.get("reason")
    if reason:
        words.append(f"({reason})")
    if row.label:
        words.append(f'"{one_line(row.label, _TEXT_WIDTH)}"')
    if row.event == "placed":
        words.append(f"on {row.host}")
    if row.event == "command_ended":
        # The last step decides: what comes after a failed one did not run.
        ran = [step for step in row.detail.get("steps", ()) if step.get("exit_status") is not None]
        words.extend(f"exit {step['exit_status']}" for step in ran[-1:])
    if row.event in TERMINAL_WORDS:
        if row.commit_sha and row.kind == "commit":
            words.append(row.commit_sha[:12])
        if row.tokens is not None:
            words.append(f"{count(row.tokens)} tokens")
        words.append(row.call_id)
        if row.detail.get("error"):
            words.append(one_line(str(row.detail["error"]), _TEXT_WIDTH))
    return " ".join(words)


def _event_words(row: EventRow) -> str:
    if row.kind == "phase":
        return f"== {one_line(str(row.data.get('name') or row.label or ''), _TEXT_WIDTH)} =="
    if row.kind == "log":
        return one_line(str(row.data.get("message", "")), _TEXT_WIDTH * 2)
    if row.kind == "waiting_for_host" and not row.data.get("calls"):
        why = row.data.get("sentence") or row.data["reason"]
        return f"waits for host {row.data.get('host')} to say what is still there ({one_line(str(why), _TEXT_WIDTH)})"
    if row.kind == "host_answered":
        said = "was given up and is not asked any more" if row.data.get("given_up") else "said what is still there"
        return f"host {row.data.get('host')} {said}"
    if row.kind == "waiting_for_host":
        return f"waits for host {row.data.get('host')}, which is silent"
    if row.kind == "escalation":
        return f"somebody should look: {one_line(str(row.data.get('ask')), _TEXT_WIDTH)}"
    if row.kind == "cancel_waiting":
        return f"the stopped run waits for {len(row.data.get('calls', ()))} calls to end"
    if row.kind == "ending":
        return f"the script is over ({row.data.get('status')}); its last calls are being ended"
    if row.kind == "finished":
        return f"run {end_words(str(row.data.get('status', 'finished')), row.data.get('error_kind'))}"
    if row.kind == "started":
        return f"run {_DRIVEN.get(str(row.data.get('how')), 'started')}"
    return f"{row.kind} {one_line(str(row.label or ''), _TEXT_WIDTH)}".rstrip()

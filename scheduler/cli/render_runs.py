"""The list of runs on a screen. Pure: summaries to text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from scheduler.cli.output import Table, count, duration, one_line
from scheduler.cli.render_run import drop_empty
from scheduler.outcome import end_words
from shared.journal.summaries import RunSummary

_TEXT_WIDTH = 28


def runs_table(summaries: Sequence[RunSummary], now: datetime) -> Table:
    """One line a run."""
    rows = tuple(
        (
            one.run_id,
            one_line(one.workflow, _TEXT_WIDTH),
            one_line(one.run_key or "", _TEXT_WIDTH),
            state_words(one),
            one_line(one.phase or "", _TEXT_WIDTH) if one.state != "ended" else "",
            str(one.calls - one.open_calls),
            str(one.open_calls),
            str(one.turns_sent),
            count(one.tokens),
            duration((now - one.submitted_at).total_seconds()),
        )
        for one in summaries
    )
    heads = ("RUN", "SCRIPT", "KEY", "STATE", "PHASE", "DONE", "OPEN", "TURNS", "TOKENS", "AGE")
    return drop_empty(Table(heads, rows, frozenset({"DONE", "OPEN", "TURNS", "TOKENS", "AGE"})))


def state_words(one: RunSummary) -> str:
    """The state of a run; a stop that is set, or how it ended, is said with it."""
    if one.state == "ended":
        return end_words(str(one.status), one.error_kind)
    state = f"{one.state} (no progress)" if one.state == "quarantined" else one.state
    return f"{state}, {one.stop} asked" if one.stop else state


def summary_record(one: RunSummary, now: datetime) -> dict[str, Any]:
    """A run of the list as a JSON object."""
    return {
        "run": one.run_id,
        "key": one.run_key,
        "workflow": one.workflow,
        "state": one.state,
        "stop": one.stop,
        "status": one.status,
        "error_kind": one.error_kind,
        "phase": one.phase,
        "done": one.calls - one.open_calls,
        "open": one.open_calls,
        "turns": one.turns_sent,
        "tokens": one.tokens,
        "submitted_at": one.submitted_at.isoformat(),
        "ended_at": one.ended_at.isoformat() if one.ended_at else None,
        "age_seconds": round((now - one.submitted_at).total_seconds(), 1),
    }

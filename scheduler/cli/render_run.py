"""A run on a screen: its facts, its calls lane by lane, and what the open ones wait for. Pure: rows to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from scheduler.cli.output import Table, count, duration, one_line
from scheduler.cli.view import CallView, RunView
from scheduler.outcome import end_words
from shared.journal.open_calls import OpenCallState

_LABEL_WIDTH = 32


def run_facts(view: RunView, state: str, extra: Mapping[str, str | None], now: datetime) -> list[tuple[str, str]]:
    """The lines above the calls: name and value, without the ones that have none."""
    facts: list[tuple[str, str | None]] = [
        ("run", view.run_id),
        ("state", state_words(state, view)),
        ("phase", view.phase),
        *extra.items(),
        ("calls", f"{view.done} done, {len(view.open_calls)} open"),
        ("tokens", count(view.tokens) if view.tokens is not None else None),
        ("took" if view.finished_at else "running for", _elapsed(view, now)),
        ("waits for host", view.waiting_for if view.status is None else None),
        ("look", view.ask if view.status is None else None),
        ("message", view.message),
    ]
    return [(name, value) for name, value in facts if value]


def state_words(state: str, view: RunView) -> str:
    """The run's state for people; an ended one says how it ended."""
    if view.status is None:
        return state
    return end_words(view.status, view.error_kind)


def _elapsed(view: RunView, now: datetime) -> str | None:
    if view.started_at is None:
        return None
    return duration(((view.finished_at or now) - view.started_at).total_seconds())


def calls_table(view: RunView, why: Mapping[str, str], now: datetime) -> Table:
    """Every call of a run, lanes in the order they began.

    Args:
        why: call id -> what the open call waits for.
    """
    lanes: dict[str, list[CallView]] = {}
    for call in view.calls.values():
        lanes.setdefault(call.path, []).append(call)
    rows = [
        (
            call.lane if index == 0 else "",
            str(call.position),
            call.name,
            call.node or "",
            one_line(call.label or "", _LABEL_WIDTH),
            status_words(call),
            call.host or "",
            str(call.turns) if call.turns else "",
            count(call.tokens) if call.tokens is not None else "",
            duration(call.seconds(now)),
            why.get(call.call_id, ""),
            call.call_id,
        )
        for calls in lanes.values()
        for index, call in enumerate(calls)
    ]
    heads = ("LANE", "POS", "CALL", "NODE", "LABEL", "STATE", "HOST", "TURNS", "TOKENS", "TIME", "WAITS FOR", "ID")
    return drop_empty(Table(heads, tuple(rows), frozenset({"POS", "TURNS", "TOKENS", "TIME"})))


def waiting_words(one: OpenCallState, silent: Mapping[str, str], able: Mapping[str, bool] | None = None) -> str:
    """What a call that has not ended waits for.

    Args:
        silent: as the view of the run has it.
        able: the living hosts that may take the run's calls, where that is known; false for one that drains.
    """
    if one.state == "claimed":
        return f"host {one.host}, which is silent" if one.call_id in silent else f"its worker on {one.host}"
    if one.state == "stranded":
        return f"host {one.host}: its worker died after something was sent"
    if one.state == "lost":
        return "the scheduler: its host is lost"
    if one.host:
        away = able is not None and one.host not in able
        return f"host {one.host}, which is not up" if away else f"a free slot on host {one.host}"
    if able is None or any(able.values()):
        return "a free worker"
    return "a worker: those that are up drain" if able else "a worker: none is up that may take it"


def status_words(call: CallView) -> str:
    """A call's state with its reason and, from the second on, its attempt."""
    words = f"{call.shown_state} ({call.reason})" if call.reason else call.shown_state
    return f"{words}, attempt {call.attempt + 1}" if call.attempt else words


def drop_empty(table: Table) -> Table:
    """The table without the columns in which no row says anything."""
    kept = [column for column in range(len(table.heads)) if any(row[column] for row in table.rows) or not table.rows]
    rows = tuple(tuple(row[column] for column in kept) for row in table.rows)
    return Table(tuple(table.heads[column] for column in kept), rows, table.right)


def run_record(view: RunView, state: str, extra: Mapping[str, Any], why: Mapping[str, str]) -> dict[str, Any]:
    """The same as one JSON object."""
    return {
        "run": view.run_id,
        "state": state,
        "status": view.status,
        "error_kind": view.error_kind,
        "message": view.message,
        "phase": view.phase,
        **extra,
        "done": view.done,
        "open": len(view.open_calls),
        "tokens": view.tokens,
        "last_seq": view.last_seq,
        "waiting_for_host": view.waiting_for,
        "ask": view.ask,
        "calls": [call_record(call, why.get(call.call_id)) for call in view.calls.values()],
    }


def call_record(call: CallView, why: str | None = None) -> dict[str, Any]:
    """A call as one JSON object."""
    return {
        "call": call.call_id,
        "path": call.path,
        "position": call.position,
        "kind": call.kind,
        "role": call.role,
        "node": call.node,
        "label": call.label,
        "state": call.state,
        "reason": call.reason,
        "attempt": call.attempt,
        "host": call.host,
        "turns": call.turns,
        "tokens": call.tokens,
        "commit": call.commit,
        "opened_at": call.opened_at.isoformat(),
        "ended_at": call.ended_at.isoformat() if call.ended_at else None,
        "waits_for": why,
    }


def facts_lines(facts: Sequence[tuple[str, str]]) -> str:
    """Names and values under each other."""
    width = max((len(name) for name, _ in facts), default=0)
    return "\n".join(f"{name.ljust(width)}  {one_line(value)}" for name, value in facts)

"""Rows of a call to its result: the one function for live results and for replayed ones.

Nothing else is asked: not the host, not another table. A call has a result only
while it is ended: `prepared` starts an attempt, and a thread or turn that is asked for
or starts after a terminal row, a recovery that begins or any row of a later attempt
opens the call again, so the end of an earlier attempt is never shown with the thread of
a later one.
Source: journal document, "The replayed CallResult".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.base.canonical import parse
from shared.model.call_state import begins_attempt
from shared.model.events import REOPENING_WORDS, TERMINAL_WORDS
from shared.model.outcome import Ended, Meta, Status
from shared.model.rows import CallRow

_AGENT = "agent"


def read_call_result(rows: Sequence[CallRow]) -> Ended | None:
    """How the newest attempt of a call ended; None while it is open.

    Args:
        rows: the call's rows in the order of their seq, with results.
    """
    prepared: CallRow | None = None
    terminal: CallRow | None = None
    began = number = 0
    for at, row in enumerate(rows):
        if begins_attempt(row):
            prepared, terminal, began = row, None, at
        elif row.attempt > number and at > began:
            # It goes on in place: one more attempt of what the same prepared row asked.
            terminal = None
        number = row.attempt
        if row.event in TERMINAL_WORDS:
            terminal = row
        elif row.event in REOPENING_WORDS:
            terminal = None
    if terminal is None:
        return None
    status = Status(terminal.event)
    return Ended(
        status,
        _output(terminal, prepared) if status is Status.COMPLETED else None,
        terminal.detail.get("reason"),
        _meta(rows[began:], terminal, prepared),
        terminal.result_digest,
        terminal.detail,
    )


def _output(terminal: CallRow, prepared: CallRow | None) -> Any:
    """The answer as the script gets it: JSON as a value, and an agent's free text as it is."""
    if terminal.result is None:
        return None
    free_text = terminal.kind == _AGENT and (prepared is None or prepared.detail.get("schema") is None)
    if not free_text:
        try:
            return parse(terminal.result)
        except ValueError:
            pass  # it is shown as it is rather than lost
    return terminal.result.decode("utf-8", "surrogatepass")


def _meta(attempt: Sequence[CallRow], terminal: CallRow, prepared: CallRow | None) -> Meta:
    if terminal.kind != _AGENT:
        # No pair, thread or turn to look for; ops are most of what a long replay reads.
        return Meta(
            terminal.call_id,
            terminal.kind,
            role=terminal.role,
            tokens=terminal.tokens,
            first_seq=attempt[0].seq,
            last_seq=attempt[-1].seq,
            host=terminal.host or _newest(attempt, "host"),
            node_id=terminal.node_id,
            attempt=terminal.attempt,
        )
    turns = [row for row in attempt if row.event == "turn_requested"]
    return Meta(
        terminal.call_id,
        terminal.kind,
        role=terminal.role,
        requested=_pair(prepared.detail.get("pair") if prepared else None),
        configured=_configured(attempt),
        thread_id=terminal.thread_id or _newest(attempt, "thread_id"),
        turn_id=terminal.turn_id or _newest(attempt, "turn_id"),
        turns=len(turns),
        repair=any(row.detail.get("repair") for row in turns),
        tokens=terminal.tokens if terminal.tokens is not None else _tokens(attempt),
        first_seq=attempt[0].seq,
        last_seq=attempt[-1].seq,
        host=_newest(attempt, "host"),
        node_id=terminal.node_id,
        attempt=terminal.attempt,
        head=_newest(attempt, "start_commit") or (prepared.commit_sha if prepared else None),
    )


def _tokens(attempt: Sequence[CallRow]) -> int | None:
    """The sum over the turns that were seen ended."""
    ended = [row.tokens for row in attempt if row.event == "turn_ended" and row.tokens is not None]
    return sum(ended) if ended else None


def _configured(attempt: Sequence[CallRow]) -> tuple[str, str] | None:
    """The pair that the server answered for the newest thread."""
    for row in reversed(attempt):
        if row.event in ("thread_started", "fork_started") and row.detail.get("model") is not None:
            return _pair([row.detail["model"], row.detail.get("effort")])
    return None


def _pair(value: Any) -> tuple[str, str] | None:
    return None if value is None else (value[0], value[1])


def _newest(attempt: Sequence[CallRow], name: str) -> Any:
    return next((value for row in reversed(attempt) if (value := getattr(row, name)) is not None), None)

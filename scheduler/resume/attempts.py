"""The attempts of a call: which one is next, and how many requests have ended. Pure.

An attempt begins with the row that says what is asked. What goes on in place, behind a
hold or a recovery, is a new attempt of the claim but the same request.
Source: decisions, "Words"; journal document, "Ops" (request ids).
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.resume.decisions import Failed, Live
from shared.model.call_state import begins_attempt
from shared.model.events import REOPENING_WORDS, TERMINAL_WORDS
from shared.model.rows import CallRow


def last_end(rows: Sequence[CallRow]) -> CallRow | None:
    """The terminal row that a call ended with; None while it is open: an intent or a start came after its last one."""
    for row in reversed(rows):
        event = row.event
        if event in TERMINAL_WORDS:
            return row
        if event == "prepared" or event in REOPENING_WORDS:
            return None
    return None


def is_ended(rows: Sequence[CallRow]) -> bool:
    """Whether the newest attempt of a call has ended."""
    return last_end(rows) is not None


def live_again(rows: Sequence[CallRow], because: Failed) -> Live:
    """One more attempt of a recorded call; the one before it is superseded first, also one that was held."""
    return Live(rows[-1].attempt + 1, ended_attempts(rows, superseded=True), because, rows=rows)


def ended_attempts(rows: Sequence[CallRow], *, superseded: bool = False) -> int:
    """How many requests of the call have ended. What goes on in place is one request; a hold alone ends none."""
    ends: list[str | None] = []
    for row in rows:
        if begins_attempt(row) or not ends:
            ends.append(None)
        if row.event in TERMINAL_WORDS:
            ends[-1] = row.event
    if superseded:
        ends[-1] = "superseded"
    return sum(end not in (None, "held") for end in ends)


def newest_request(rows: Sequence[CallRow]) -> Sequence[CallRow]:
    """The rows from the last one that says what is asked."""
    begins = [number for number, row in enumerate(rows) if begins_attempt(row)]
    return rows[begins[-1] :] if begins else rows

"""Read the large results of a replay when the script comes to them, some of the next ones along.

A run is loaded without them, so that the memory of a resume does not grow with what was
answered: at most `_AHEAD_BYTES` are held for positions that the script has not come to.
Source: rules of the protocol, 41.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from scheduler.flow.waiting import Rows
from scheduler.resume.history import History
from shared.journal.database import Database
from shared.journal.read import load_results
from shared.model.events import TERMINAL_WORDS
from shared.model.rows import CallRow

_AHEAD_BYTES = 1 << 20
_AHEAD_POSITIONS = 50


class Recall:
    """The results of one run that its rows were loaded without."""

    def __init__(self, database: Database, run_id: str, history: History) -> None:
        self._database = database
        self._run_id = run_id
        self._history = history
        self._ahead: dict[int, bytes] = {}
        self._held_bytes = 0

    async def whole(self, rows: Rows) -> Rows:
        """A call's rows with the result of its last end."""
        end = _unread(rows)
        if end is None:
            return rows
        if end.seq not in self._ahead:
            seqs = [end.seq, *self._next(end)]
            found = await asyncio.to_thread(load_results, self._database, self._run_id, seqs)
            self._held_bytes += sum(map(len, found.values()))
            self._ahead |= found
        result = self._ahead.pop(end.seq, None)
        self._held_bytes -= len(result or b"")
        return [row.with_result(result) if row is end else row for row in rows]

    def _next(self, end: CallRow) -> list[int]:
        """What the same path comes to next, as much as may be held."""
        room = _AHEAD_BYTES - self._held_bytes - (end.result_bytes or 0)
        seqs = []
        for rows in self._history.peek((end.path, end.position), _AHEAD_POSITIONS):
            following = _unread(rows)
            if following is None or following.seq in self._ahead:
                continue
            room -= following.result_bytes or 0
            if room < 0:
                break
            seqs.append(following.seq)
        return seqs


def is_whole(rows: Rows) -> bool:
    """Whether there is no result left to read of a call's end."""
    return _unread(rows) is None


def _unread(rows: Sequence[CallRow]) -> CallRow | None:
    """The end of a call whose result was not loaded; None when there is none to load."""
    for end in reversed(rows):
        if end.event in TERMINAL_WORDS:
            return end if end.result is None and end.result_bytes else None
    return None

"""Find what a creation whose answer was lost, or was refused, made after all.

A thread that a call asked for carries the call's mark (`crw:<run>/<call>/<ordinal>`)
and stands in the directory that it was asked for; both count together. One without a
turn of its own has no effect and may be taken over; one with a turn is somebody's work.
Source: App Server document (the host side of reconcile); journal document, "The suffix" and "Held calls".
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from shared.base.errors import ThreadMissing, Unreadable
from workers.appserver import AppServerConnection, FullTurn, Thread


@dataclass(frozen=True)
class Creation:
    """A thread that a call made. Shape: `turns` with all of their items, the newest first."""

    thread: Thread
    turns: tuple[FullTurn, ...]


def find_creations(connection: AppServerConnection, marks: str, cwd: str) -> list[Creation]:
    """The threads at `cwd` whose mark begins with `marks`.

    Raises:
        Unreadable: the turns of one cannot be read in full. NotSent, Refused, AnswerLost.
    """
    found = []
    for thread_id in connection.threads.list_ids(cwd):
        try:
            thread = connection.threads.read(thread_id)
        except ThreadMissing:
            continue
        if (thread.source or "").startswith(marks) and os.path.realpath(thread.cwd) == os.path.realpath(cwd):
            found.append(Creation(thread, tuple(connection.turns.list_full(thread_id))))
    return found


def find_fork(
    connection: AppServerConnection, marks: str, cwd: str, source_thread: str, through_turn: str
) -> Thread | None:
    """A fork whose answer was lost: made of this thread, at this directory, holding its turns up to this one exactly.

    Raises:
        NotSent, Refused, AnswerLost.
    """
    prefix: list[str] | None = None
    for creation in find_creations(connection, marks, cwd):
        if creation.thread.forked_from != source_thread:
            continue
        if prefix is None:
            prefix = _prefix(connection, source_thread, through_turn)
        if prefix and [turn.id for turn in creation.turns] == prefix:
            return creation.thread
    return None


def _prefix(connection: AppServerConnection, thread_id: str, through_turn: str) -> list[str]:
    """The turns of a thread from the given one back to its first; empty when it does not have it."""
    try:
        turns = [turn.id for turn in connection.turns.list_full(thread_id)]
    except (ThreadMissing, Unreadable):
        return []
    return turns[turns.index(through_turn) :] if through_turn in turns else []

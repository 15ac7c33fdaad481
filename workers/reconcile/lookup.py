"""Look a turn up on the host: take its thread's writer lock, then read its turns in full.

Source: facts of the App Server, "Server killed mid-turn"; settled conflicts of proving an end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from shared.base.errors import EchoMismatch, Refused, ThreadBusy, ThreadMissing
from shared.model.operation import read_marker
from shared.model.sent_turn import SentTurn
from workers.appserver import AppServerConnection, FullTurn, Thread, ThreadSettings, has_no_line

# The lock of a process that was just killed can outlive it by a moment.
_BUSY_SECONDS = 5.0
_RETRY_SECONDS = 0.1


@dataclass(frozen=True)
class Sighting:
    """What the host has. `thread` None: it has no such thread; `turn` None: the thread has no such turn."""

    thread: Thread | None
    turn: FullTurn | None


def look_up(connection: AppServerConnection, wanted: ThreadSettings, sent: SentTurn) -> Sighting:
    """What the host has of a turn, read as the thread's one writer.

    Raises:
        ThreadBusy: another process has the thread. Unreadable, Refused: it cannot be read.
        NotSent, AnswerLost: the server ended meanwhile.
    """
    thread = take_thread(connection, wanted, sent.thread_id)
    return Sighting(thread, find_turn(connection, sent) if thread is not None else None)


def take_thread(connection: AppServerConnection, wanted: ThreadSettings, thread_id: str) -> Thread | None:
    """Load a thread and so take its writer lock; None when the host has no such thread. Raises as `look_up`."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            return connection.threads.resume(thread_id, wanted)
        except ThreadMissing:
            return None
        except EchoMismatch as error:
            # For reading it will do; who sends to it compares the settings again.
            thread: Thread = error.facts["thread"]
            return thread
        except ThreadBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        except Refused as error:
            if has_no_line(error):
                return None
            raise


def find_turn(connection: AppServerConnection, sent: SentTurn) -> FullTurn | None:
    """The turn among those of its thread: by the id the server gave it, else by the operation in its input.

    Raises:
        Unreadable, ThreadMissing, NotSent, AnswerLost.
    """
    for turn in connection.turns.list_full(sent.thread_id):
        if turn.id == sent.turn_id or sent.operation in read_operations(turn):
            return turn
    return None


def read_operations(turn: FullTurn) -> set[str | None]:
    """The operations that the inputs of a turn name."""
    inputs = [item for item in turn.items if item.get("type") == "userMessage"]
    return {read_marker(item.get("clientId"), _text(item)) for item in inputs}


def _text(item: dict[str, object]) -> str | None:
    parts = item.get("content")
    if not isinstance(parts, list) or not parts or not isinstance(parts[0], dict):
        return None
    return str(parts[0].get("text") or "")

"""The end of a turn: as it was heard, as the server has it on record, and as a row tells it.

Source: App Server document, "The App Server backend"; facts of the App Server, "Turn ends".
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from shared.base.canonical import storable
from shared.journal import artifacts
from shared.model.rows import NewCallRow
from shared.model.sent_turn import SentTurn
from workers.appserver import AppServerConnection, FullTurn, TurnEnd, TurnError, Usage, make_transcript
from workers.call.desk import Desk

_GONE_SECONDS = 3.0


@dataclass(frozen=True)
class EndedTurn:
    """A turn that is known to have ended.

    Shape: `stopped` is why it was interrupted, None when it ended by itself; `cut` that
    what ran it died, so that the call goes on behind it.
    """

    ordinal: int
    end: TurnEnd
    transcript: str | None
    stopped: str | None = None
    cut: bool = False


def adopt(desk: Desk, sent: SentTurn, end: TurnEnd) -> EndedTurn:
    """Take an end that the server has on record for the turn's.

    A turn that was interrupted and that nobody here wanted interrupted was cut by the end of its server.

    Writes: `turn_ended` unless it is written; the transcript as an artifact.
    """
    cut = end.status == "interrupted" and sent.interrupt is None
    transcript = keep_transcript(desk, end)
    if sent.ended is None:
        desk.note(ended_row(end, transcript, sent.operation, cut=cut))
    stopped = sent.interrupt if end.status == "interrupted" else None
    return EndedTurn(sent.ordinal, end, transcript, stopped, cut)


def told_end(sent: SentTurn) -> EndedTurn:
    """The end that an earlier holder's row told of: all but what the turn said."""
    row = sent.ended
    assert row is not None
    detail = row.detail
    error, status = detail.get("error"), str(detail.get("status"))
    end = TurnEnd(
        thread_id=sent.thread_id,
        turn_id=str(row.turn_id),
        status=status,
        items=(),
        usage=Usage(**detail["usage"]) if detail.get("usage") else None,
        error=TurnError(**error, message=str(error.get("info") or error.get("reason"))) if error else None,
        seconds=detail.get("seconds"),
    )
    stopped = sent.interrupt if status == "interrupted" else None
    return EndedTurn(sent.ordinal, end, detail.get("transcript"), stopped, bool(detail.get("cut")))


def recorded_end(thread_id: str, turn: FullTurn) -> TurnEnd:
    """The end of a turn as the server has it on record: what it used is not told there."""
    return TurnEnd(thread_id, turn.id, turn.status, turn.items, None, turn.error, None)


def is_gone(connection: AppServerConnection) -> bool:
    """Whether the server has ended; its process is waited for a moment after its pipe closed."""
    end = time.monotonic() + _GONE_SECONDS
    while connection.alive and time.monotonic() < end:
        time.sleep(0.05)
    return not connection.alive


def keep_transcript(desk: Desk, end: TurnEnd) -> str:
    """Store what the turn said and did; its digest."""
    text = storable(make_transcript(end.items))
    return artifacts.put(desk.worker.database, text.encode("ascii"), "application/json")


def ended_row(end: TurnEnd, transcript: str, operation: str, *, cut: bool = False) -> NewCallRow:
    """The row of a turn's end. Shape: `cut` that what ran it died."""
    detail = {
        "turn": end.turn_id,
        "status": end.status,
        "cut": cut,
        "usage": end.usage.to_json() if end.usage else None,
        "seconds": end.seconds,
        "transcript": transcript,
        "error": {"reason": end.error.reason, "info": end.error.info, "http_status": end.error.http_status}
        if end.error
        else None,
    }
    return NewCallRow(
        "turn_ended",
        detail,
        thread_id=end.thread_id,
        turn_id=end.turn_id,
        operation=operation,
        tokens=end.usage.total if end.usage else None,
    )

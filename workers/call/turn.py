"""One turn: announced, sent once, followed to its end, interrupted when the call should end.

Source: App Server document, "The App Server backend"; facts of the App Server, "Turn ends", "turn/interrupt".
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from shared.base.canonical import digest_json, storable
from shared.base.errors import AnswerLost
from shared.journal import artifacts
from shared.model.operation import turn_operation
from shared.model.rows import NewCallRow
from workers.appserver import AppServerConnection, TurnCursor, TurnEnd, TurnRequest, make_transcript
from workers.call.context import AgentCall
from workers.call.desk import Desk
from workers.claim import CallStopped

_LOOK_SECONDS = 0.5
# The end of a turn can be lost; so a silent turn is read back from the server now and then.
_PULL_SECONDS = 60.0
_INTERRUPT_SECONDS = 20.0


@dataclass(frozen=True)
class EndedTurn:
    """A turn that was seen ended. `stopped` is why it was interrupted, None when it ended by itself."""

    ordinal: int
    end: TurnEnd
    transcript: str
    stopped: str | None = None


def run_turn(
    desk: Desk,
    call: AgentCall,
    connection: AppServerConnection,
    thread_id: str,
    ordinal: int,
    text: str,
    *,
    repair: bool = False,
) -> EndedTurn:
    """Send one turn and return when it has ended.

    Writes: `turn_requested`, `turn_started`, `user_message_seen`, `interrupt_requested`, `turn_ended`; the
    turn's transcript as an artifact.

    Raises:
        NotSent, Refused: nothing was sent; among them TurnActive. BudgetSpent, RunStopping: its intent was refused.
        AnswerLost: what came of it is not known. CallStopped: the claim was lost.
    """
    operation = turn_operation(call.claim.call_id, ordinal)
    nonce = secrets.token_hex(8)
    request = TurnRequest(operation, nonce, text, call.role.model, call.role.effort, call.schema)
    with connection.turns.cursor(thread_id) as cursor:
        detail = {
            "operation": operation,
            "nonce": nonce,
            "repair": repair,
            "schema_digest": digest_json(call.schema) if call.schema is not None else None,
            "generation": connection.generation,
        }
        desk.append(
            NewCallRow("turn_requested", detail, thread_id=thread_id, operation=operation, input_state="not_delivered")
        )
        turn_id = desk.send(lambda: connection.turns.start(cursor, request, before_send=desk.check))
        desk.note(NewCallRow("turn_started", {"turn": turn_id}, thread_id=thread_id, turn_id=turn_id))
        end, stopped = _Follower(desk, connection, cursor, turn_id).follow()
    transcript = _keep_transcript(desk, end)
    desk.note(_ended_row(end, transcript, operation))
    return EndedTurn(ordinal, end, transcript, stopped)


class _Follower:
    """Watches one running turn."""

    def __init__(self, desk: Desk, connection: AppServerConnection, cursor: TurnCursor, turn_id: str) -> None:
        self._desk = desk
        self._connection = connection
        self._cursor = cursor
        self._turn_id = turn_id
        self._seen = False

    def follow(self) -> tuple[TurnEnd, str | None]:
        """The turn's end, and why it was interrupted if it was."""
        pull_at = time.monotonic() + _PULL_SECONDS
        while True:
            end = self._cursor.wait(_LOOK_SECONDS)
            self._observe()
            if end is not None:
                return end, None
            reason = self._desk.should_stop()
            if reason is not None:
                return self._interrupt(reason), reason
            if time.monotonic() > pull_at:
                end = self._pull()
                if end is not None:
                    return end, None
                pull_at = time.monotonic() + _PULL_SECONDS

    def _observe(self) -> None:
        self._desk.worker.progress.put(self._desk.claim, self._turn_id, self._cursor.progress)
        if self._cursor.delivered and not self._seen:
            self._seen = True
            self._desk.note(NewCallRow("user_message_seen", turn_id=self._turn_id, input_state="delivered"))

    def _interrupt(self, reason: str) -> TurnEnd:
        if reason == "lost":
            # Somebody else decides about this call now: no row, but the turn need not go on.
            self._connection.turns.interrupt(self._cursor, timeout_seconds=_INTERRUPT_SECONDS)
            raise CallStopped("lost")
        self._desk.append(
            NewCallRow(
                "interrupt_requested",
                {"turn": self._turn_id, "reason": reason},
                thread_id=self._cursor.thread_id,
                turn_id=self._turn_id,
            )
        )
        end = self._connection.turns.interrupt(
            self._cursor, timeout_seconds=_INTERRUPT_SECONDS, before_send=self._desk.check
        )
        if end is None:
            raise AnswerLost(f"turn {self._turn_id} was interrupted ({reason}) and not seen ended")
        self._desk.note(NewCallRow("interrupted", {"turn": self._turn_id, "reason": reason}, turn_id=self._turn_id))
        return end

    def _pull(self) -> TurnEnd | None:
        """The end as the server has it on record, where no event told of it."""
        turn = self._connection.turns.read_full(self._cursor.thread_id, self._turn_id)
        if turn is None or turn.completed_at is None:
            return None
        return TurnEnd(self._cursor.thread_id, turn.id, turn.status, turn.items, None, turn.error, None)


def _keep_transcript(desk: Desk, end: TurnEnd) -> str:
    text = storable(make_transcript(end.items))
    return artifacts.put(desk.worker.database, text.encode("ascii"), "application/json")


def _ended_row(end: TurnEnd, transcript: str, operation: str) -> NewCallRow:
    detail = {
        "turn": end.turn_id,
        "status": end.status,
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

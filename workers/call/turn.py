"""One turn: announced, sent once, followed to its end, interrupted when the call should end.

Source: App Server document, "The App Server backend"; facts of the App Server, "Turn ends", "turn/interrupt".
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from shared.base.canonical import digest_json
from shared.base.errors import AnswerLost, HostError, NotSent, Refused, Unreadable
from shared.model.operation import turn_operation
from shared.model.rows import NewCallRow
from shared.model.sent_turn import SentTurn
from workers.appserver import AppServerConnection, TurnCursor, TurnEnd, TurnRequest
from workers.call.context import AgentCall
from workers.call.desk import Desk
from workers.call.ended import EndedTurn, ended_row, is_gone, keep_transcript, recorded_end
from workers.call.input import Input
from workers.claim import CallStopped

_LOOK_SECONDS = 0.5
# The end of a turn can be lost; so a silent turn is read back from the server now and then.
_PULL_SECONDS = 60.0
_INTERRUPT_SECONDS = 20.0


class TurnLost(AnswerLost):
    """A turn was asked for, and what came of it was not heard. `sent` is what is known of it."""

    def __init__(self, sent: SentTurn, cause: HostError) -> None:
        super().__init__(str(cause), **cause.facts)
        self.sent = sent


def run_turn(
    desk: Desk,
    call: AgentCall,
    connection: AppServerConnection,
    thread_id: str,
    ordinal: int,
    given: Input,
    *,
    first: bool,
    directory: Path,
    repository: Mapping[str, Any] | None,
) -> EndedTurn:
    """Send one turn and return when it has ended.

    Args:
        first: the call made the thread, and no turn was delivered to it yet.
        directory: where a reading call's turn runs; an executor's is its thread's, which alone says where.
        repository: what a reading call's directory held before its first turn.

    Writes: `turn_requested`, `turn_started`, `user_message_seen`, `interrupt_requested`, `turn_ended`; the
    turn's transcript as an artifact.

    Raises:
        NotSent, Refused: nothing was sent; among them TurnActive. BudgetSpent, RunStopping: its intent was refused.
        TurnLost: what came of it is not known. CallStopped: the claim was lost.
    """
    ordinal += call.turns_before
    operation = turn_operation(call.claim.call_id, ordinal)
    nonce = secrets.token_hex(8)
    cwd = None if call.executes else str(directory)
    text = given.text(call.prompt)
    request = TurnRequest(operation, nonce, text, call.role.model, call.role.effort, call.schema, cwd)
    origin = desk.origin(connection)
    sent = SentTurn(ordinal, operation, thread_id, origin, given.packet, given.repair, first, repository)
    with connection.turns.cursor(thread_id) as cursor:
        detail = {
            "operation": operation,
            "nonce": nonce,
            "repair": given.repair,
            "packet": dict(given.packet),
            "schema_digest": digest_json(call.schema) if call.schema is not None else None,
            **({"repository": dict(repository)} if repository is not None else {}),
            **origin.to_json(),
        }
        desk.append(
            NewCallRow("turn_requested", detail, thread_id=thread_id, operation=operation, input_state="not_delivered")
        )
        try:
            turn_id = desk.send(lambda: connection.turns.start(cursor, request, before_send=desk.check))
        except AnswerLost as error:
            raise TurnLost(sent, error) from error
        desk.note(NewCallRow("turn_started", {"turn": turn_id}, thread_id=thread_id, turn_id=turn_id))
        return _follow(desk, connection, cursor, replace(sent, turn_id=turn_id))


def follow_found(desk: Desk, connection: AppServerConnection, sent: SentTurn, turn_id: str) -> EndedTurn:
    """Follow a turn that was found running on this connection. Raises TurnLost, CallStopped."""
    with connection.turns.cursor(sent.thread_id) as cursor:
        cursor.bind(turn_id, begun=True)
        return _follow(desk, connection, cursor, replace(sent, turn_id=turn_id), pull_at=time.monotonic())


def _follow(
    desk: Desk, connection: AppServerConnection, cursor: TurnCursor, sent: SentTurn, pull_at: float | None = None
) -> EndedTurn:
    follower = _Follower(desk, connection, cursor, sent, pull_at)
    try:
        end, stopped = follower.follow()
    except TurnLost:
        raise
    except (AnswerLost, NotSent, Refused) as error:
        # It was running: whatever keeps it from being followed, it is looked up, and never taken for ended.
        raise TurnLost(follower.sent, error) from error
    cut = end.status == "interrupted" and stopped is None and is_gone(connection)
    transcript = keep_transcript(desk, end)
    desk.note(ended_row(end, transcript, sent.operation, cut=cut))
    return EndedTurn(sent.ordinal, end, transcript, stopped, cut)


class _Follower:
    """Watches one running turn. `sent` is what is known of it so far."""

    def __init__(
        self,
        desk: Desk,
        connection: AppServerConnection,
        cursor: TurnCursor,
        sent: SentTurn,
        pull_at: float | None,
    ) -> None:
        assert sent.turn_id is not None
        self.sent = sent
        self._turn_id = sent.turn_id
        self._desk = desk
        self._connection = connection
        self._cursor = cursor
        self._pull_at = time.monotonic() + _PULL_SECONDS if pull_at is None else pull_at

    def follow(self) -> tuple[TurnEnd, str | None]:
        """The turn's end, and why it was interrupted if it was."""
        while True:
            end = self._cursor.wait(_LOOK_SECONDS)
            self._observe()
            if end is not None:
                return end, None
            reason = self._desk.should_stop()
            if reason is not None:
                return self._interrupt(reason), reason
            if time.monotonic() > self._pull_at:
                end = self._pull()
                if end is not None:
                    return end, None
                self._pull_at = time.monotonic() + _PULL_SECONDS

    def _observe(self) -> None:
        self._desk.worker.progress.put(self._desk.claim, self._turn_id, self._cursor.progress)
        if self._cursor.delivered and not self.sent.delivered:
            self.sent = replace(self.sent, delivered=True)
            self._desk.note(NewCallRow("user_message_seen", turn_id=self._turn_id, input_state="delivered"))

    def _interrupt(self, reason: str) -> TurnEnd:
        if reason == "lost":
            # Somebody else decides about this call now: no row, but the turn need not go on.
            self._connection.turns.interrupt(self._cursor, timeout_seconds=_INTERRUPT_SECONDS)
            with contextlib.suppress(HostError):
                # Nor need the commands it left, which would run as long as this server does.
                self._connection.turns.clean_terminals(self._cursor.thread_id)
            raise CallStopped("lost")
        self._desk.append(
            NewCallRow(
                "interrupt_requested",
                {"turn": self._turn_id, "reason": reason, **self._desk.origin(self._connection).to_json()},
                thread_id=self._cursor.thread_id,
                turn_id=self._turn_id,
            )
        )
        self.sent = replace(self.sent, interrupt=reason)
        end = self._connection.turns.interrupt(
            self._cursor, timeout_seconds=_INTERRUPT_SECONDS, before_send=self._desk.check
        )
        if end is None:
            raise AnswerLost(f"turn {self._turn_id} was interrupted ({reason}) and not seen ended")
        self._desk.note(NewCallRow("interrupted", {"turn": self._turn_id, "reason": reason}, turn_id=self._turn_id))
        return end

    def _pull(self) -> TurnEnd | None:
        """The end as the server has it on record, where no event told of it."""
        try:
            turn = self._connection.turns.read_full(self._cursor.thread_id, self._turn_id)
        except (Refused, Unreadable, NotSent):
            return None
        if turn is None or turn.completed_at is None:
            return None
        return recorded_end(self._cursor.thread_id, turn)

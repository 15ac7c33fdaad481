"""Fork a conversation into a new directory: settings read back, history checked, a lost answer found.

Source: journal document, "The suffix"; facts of the App Server, "thread/fork".
"""

from __future__ import annotations

import contextlib
from typing import Any

from shared.base.errors import AnswerLost, EchoMismatch, HostError, Refused, Unreadable
from shared.base.log import get_logger
from shared.model.rows import NewCallRow
from workers.appserver import AppServerConnection, FullTurn, Thread, ThreadSettings
from workers.call.context import AgentCall
from workers.call.desk import Desk
from workers.reconcile import find_fork, read_operations


class ForkRefused(Refused):
    """The fork is not what was asked for; it is archived. Facts: thread."""

    reason = "fork_refused"


def fork_thread(desk: Desk, call: AgentCall, wanted: ThreadSettings, connection: AppServerConnection) -> Thread:
    """The fork that the call goes on in, with the history it was forked with.

    Writes: `fork_requested` before thread/fork.

    Raises:
        ForkRefused: another directory, or another last turn. EchoMismatch: other settings.
        NotSent, Refused, AnswerLost.
    """
    source, through = str(call.context["thread"]), str(call.context["through_turn"])
    detail: dict[str, Any] = {
        "source": wanted.source,
        "from": source,
        "through_turn": through,
        "cwd": wanted.cwd,
        "pair": [wanted.model, wanted.effort],
        "sandbox": wanted.sandbox,
        "auto_compact_token_limit": wanted.auto_compact_token_limit,
        **desk.origin(connection).to_json(),
    }
    desk.append(NewCallRow("fork_requested", detail, input_state="not_delivered"))
    try:
        fork = desk.send(lambda: connection.threads.fork(source, through, wanted, before_send=desk.check))
    except EchoMismatch as error:
        if "cwd" not in error.facts["differences"]:
            raise
        made: Thread = error.facts["thread"]
        raise _refuse(connection, made, f"it stands in {made.cwd} and not in {wanted.cwd}") from error
    except AnswerLost:
        # The server that was asked still has it in memory, if it made it.
        lost = find_fork(connection, wanted.source, wanted.cwd, source, through) if connection.alive else None
        if lost is None:
            raise
        # Loaded by this very server with the settings it was asked for; their echo is compared once more.
        fork = connection.threads.resume(lost.id, wanted)
        get_logger().info("fork_found", run=call.claim.run_id, call=call.claim.call_id, thread=fork.id)
    _check_history(connection, call, fork, through)
    return fork


def take_fork(call: AgentCall, wanted: ThreadSettings, connection: AppServerConnection, marks: str) -> Thread | None:
    """A fork that an earlier request of the call made and nobody heard of; None when there is none to go on in."""
    source, through = str(call.context["thread"]), str(call.context["through_turn"])
    try:
        found = find_fork(connection, marks, wanted.cwd, source, through)
        return connection.threads.resume(found.id, wanted) if found is not None else None
    except (Refused, Unreadable):
        # It can be made anew: a fork without a turn of its own has no effect.
        return None


def _check_history(connection: AppServerConnection, call: AgentCall, fork: Thread, through: str) -> None:
    try:
        turns = list(connection.turns.list_full(fork.id))
    except Unreadable as error:
        raise _refuse(connection, fork, f"its history cannot be read: {error}") from error
    last = turns[0] if turns else None
    if last is None or not _is_through(call, last, through):
        raise _refuse(connection, fork, f"it ends with the turn {last.id if last else None} and not with {through}")
    if last.status == "inProgress":
        raise _refuse(connection, fork, f"the turn {through} that it ends with is running")


def _is_through(call: AgentCall, turn: FullTurn, through: str) -> bool:
    """Whether a turn is the through turn: by its id, else by the operation it was sent under."""
    sent = {row.operation for row in call.previous if row.turn_id == through and row.operation is not None}
    return turn.id == through or bool(sent & read_operations(turn))


def _refuse(connection: AppServerConnection, fork: Thread, why: str) -> ForkRefused:
    with contextlib.suppress(HostError):
        connection.threads.archive(fork.id)
    return ForkRefused(f"the fork {fork.id} is not what was asked for: {why}", thread=fork)

"""What a conversation came to, told from the journal alone, for a thread that takes the place of one that is gone.

Each turn once, oldest first: up to and with the turn that the call continues behind, then
those of the call itself when it was held and its thread is gone since.
Source: journal document, "The suffix"; definition of packets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shared.journal import artifacts, read
from shared.journal.database import Database
from shared.model import packets
from shared.model.call_state import begins_attempt, read_call_state
from shared.model.events import TERMINAL_WORDS
from shared.model.rows import CallRow, NewCallRow
from shared.model.sent_turn import SentTurn
from workers.call.context import AgentCall
from workers.call.continuing import Conversation, Rung
from workers.call.desk import Desk
from workers.call.finish import Progressed
from workers.call.input import Input, asked_now

_CALLS_LIMIT = 1000


def build_checkpoint(database: Database, call: AgentCall) -> packets.Packet:
    """The packet that begins the new thread of a call whose conversation is gone."""
    turns = _turns_of(database, call.rows)
    context, rows = call.context, list(call.previous)
    for _ in range(_CALLS_LIMIT if call.continues else 0):
        part = _through(rows, context.get("through_turn"))
        turns = [*_turns_of(database, part), *turns]
        before = part[0].detail.get("context") if part else None
        if not before or before.get("kind") != "continue":
            break
        context, rows = before, read.load_call(database, before["call"])
    return packets.checkpoint(turns, node=call.claim.node_id if call.executes else None)


def tell_checkpoint(desk: Desk, call: AgentCall, done: Progressed) -> None:
    """Have what the call's new thread is told on record, before it is asked for.

    Writes: `checkpoint_started` with the packet and its digest.
    """
    packet = build_checkpoint(desk.worker.database, call)
    done.checkpoint = packet.to_json()
    desk.note(NewCallRow("checkpoint_started", {"packet": packet.to_json(), "digest": packet.digest()}))


def may_be_told(call: AgentCall, done: Progressed) -> bool:
    """Whether a conversation that turns out to be gone may go on in a new thread.

    It may as long as nothing was sent to it that the journal cannot tell: this call added nothing to
    it, or was held behind turns that had arrived, and added nothing since.
    """
    if is_told_to_carry_on(call):
        return done.turns_sent == call.state.turns_sent - call.turns_before
    rung = done.conversation.rung if done.conversation is not None else None
    return call.continues and not done.turns_sent and rung is not Rung.CHECKPOINT


def is_told_to_carry_on(call: AgentCall) -> bool:
    """Whether the call goes on in place behind turns that had arrived."""
    cleared = call.state.cleared
    return cleared is not None and cleared.detail.get("input_state") == "delivered"


def take_checkpoint(desk: Desk, call: AgentCall, done: Progressed, reason: str) -> None:
    """Go on in a new thread because the one to continue is gone.

    Writes: `conversation`.
    """
    done.conversation = Conversation(Rung.CHECKPOINT, reason)
    done.stored, done.checkpoint = None, None
    desk.note(done.conversation.row(call))


def _through(rows: Sequence[CallRow], turn_id: str | None) -> Sequence[CallRow]:
    """The attempt that a conversation was continued behind: from what it was asked to its end."""
    of_turn = [number for number, row in enumerate(rows) if turn_id is not None and row.turn_id == turn_id]
    last = of_turn[-1] if of_turn else len(rows) - 1
    starts = [number for number, row in enumerate(rows[: last + 1]) if begins_attempt(row)]
    first = starts[-1] if starts else 0
    ends = [number for number, row in enumerate(rows) if number >= last and row.event in TERMINAL_WORDS]
    return rows[first : (ends[0] if ends else last) + 1]


def _turns_of(database: Database, rows: Sequence[CallRow]) -> list[Mapping[str, Any]]:
    state = read_call_state(rows)
    asked = [turn for turn in state.turns if turn.lost is None]
    told: list[dict[str, Any]] = [
        {"input": _input(state.prepared, turn), "answer": _answer(database, turn)} for turn in asked
    ]
    end = state.terminal
    if told and end is not None and end.result is not None:
        told[-1]["answer"] = end.result.decode("utf-8", "replace")
    return list(told)


def _input(prepared: CallRow | None, turn: SentTurn) -> str:
    prompt = str(prepared.detail.get("prompt")) if prepared is not None else ""
    # A thread that was itself told of its conversation is not told of it once more.
    packet = turn.packet or {"kind": "prompt"}
    if packet["kind"] == "checkpoint":
        packet = asked_now(packet)
    return prompt if packet["kind"] in ("task", "prompt") else Input(packet).text(prompt)


def _answer(database: Database, turn: SentTurn) -> str:
    digest = turn.ended.detail.get("transcript") if turn.ended is not None else None
    data = artifacts.load(database, str(digest)) if digest else None
    entries = json.loads(data) if data is not None else []
    messages = [str(entry.get("text")) for entry in entries if entry.get("kind") == "message"]
    if messages:
        return messages[-1]
    status = turn.ended.detail.get("status") if turn.ended is not None else None
    return f"(no answer: the turn ended {status})" if status else "(no answer)"

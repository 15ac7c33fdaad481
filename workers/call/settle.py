"""A turn whose fate was not heard is looked up on the host, and never sent again before it is settled.

On a living server its own record says whether the turn runs or ended. That it has none
proves nothing there: the frame may still be on its way. So that server is ended first,
unless other calls use it; then, as after any death, the thread is taken by the next
server, and what that one does not have never was.
Source: App Server document (the host side of reconcile); rules of the protocol, 4 and 6.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shared.base.errors import AnswerLost, CrwError, HostError, NotSent, Refused, SettingsError, ThreadBusy, Unreadable
from shared.base.log import get_logger
from shared.model.rows import NewCallRow
from shared.model.sent_turn import SentTurn
from workers.appserver import FullTurn
from workers.call.context import AgentCall
from workers.call.continuing import recorded_conversation
from workers.call.desk import Desk
from workers.call.ended import EndedTurn, adopt, is_gone, recorded_end, told_end
from workers.call.finish import Progressed
from workers.call.input import Input, recorded_input
from workers.call.thread import plan_settings
from workers.call.turn import TurnLost, follow_found
from workers.reconcile import Sighting, find_turn, is_delivered, look_up, why_unproven

log = get_logger()
# A server that has to be started again, or a lease that waits for the database, takes a while.
_LOOK_PAUSES_SECONDS = (0.2, 1.0, 5.0, 20.0, 0.0)

Next = Input | EndedTurn


class Held(CrwError):
    """The call ends held: `reason` is the word."""

    def __init__(self, reason: str, sentence: str, **facts: Any) -> None:
        super().__init__(sentence, **facts)
        self.reason = reason


class Unproven(Held):
    """What came of a turn cannot be proven: the call ends `outcome_unknown`."""


def settle(desk: Desk, call: AgentCall, done: Progressed, sent: SentTurn, *, follow: bool = True) -> Next:
    """What became of a turn that this worker sent and lost sight of.

    Args:
        follow: wait for the end of a turn that is found running; else it is not proven now.

    Raises:
        Unproven. CallStopped: the claim was lost while the turn was followed.
    """
    connection = done.connection
    assert connection is not None
    if not is_gone(connection):
        hung = False
        try:
            turn = find_turn(connection, sent)
            if turn is not None and turn.completed_at is not None and is_delivered(turn):
                return adopt(desk, sent, recorded_end(sent.thread_id, turn))
            if turn is not None and turn.status == "inProgress" and sent.interrupt is None:
                return _follow(desk, done, sent, turn, follow)
        except TurnLost as lost:
            sent = lost.sent
        except AnswerLost:
            # It answers nobody: whatever it runs, nobody will hear of it.
            hung = True
        except HostError as error:
            log.info("turn_not_found_yet", call=call.claim.call_id, operation=sent.operation, why=str(error))
        if not desk.worker.appserver.end_generation(connection, shared=hung):
            sentence = "the App Server does not say what came of the turn, and other calls use it"
            raise Unproven("answer_lost", sentence, operation=sent.operation)
    return settle_after_death(desk, call, done, sent, follow=follow)


def _follow(desk: Desk, done: Progressed, sent: SentTurn, turn: FullTurn, follow: bool) -> EndedTurn:
    if not follow:
        raise Unproven("running", f"turn {turn.id} of {sent.operation} is still running")
    assert done.connection is not None
    return follow_found(desk, done.connection, sent, turn.id)


def settle_after_death(desk: Desk, call: AgentCall, done: Progressed, sent: SentTurn, *, follow: bool = True) -> Next:
    """What became of a turn whose server is gone.

    Writes: `turn_ended` for an end that no row tells of yet; `turn_lost` with the evidence.

    Raises:
        Unproven.
    """
    sighting = _look(desk, call, done, sent)
    done.thread, done.opened = sighting.thread, None
    turn = sighting.turn
    if turn is not None and turn.status == "inProgress":
        return _follow(desk, done, sent, turn, follow)
    if turn is not None and is_delivered(turn):
        return adopt(desk, sent, recorded_end(sent.thread_id, turn))
    if sent.lost is None:
        _prove_lost(desk, done, sent, sighting)
        done.losses += 1
    if sent.interrupt is not None and sent.interrupt != "worker_stopped":
        raise Held(sent.interrupt, "the call was to end, and its turn was not delivered")
    if sent.repair:
        done.repair_used = False
    return recorded_input(sent, continues=call.continues, conversation=done.checkpoint)


def look_up_after_end(desk: Desk, call: AgentCall, done: Progressed, turn: EndedTurn) -> FullTurn | None:
    """A turn that was seen ended, read from the next server because its own is gone. Raises Unproven."""
    sent = SentTurn(turn.ordinal, "", turn.end.thread_id, turn_id=turn.end.turn_id)
    sighting = _look(desk, call, done, sent)
    done.thread, done.opened = sighting.thread, None
    return sighting.turn


def go_on(desk: Desk, call: AgentCall, done: Progressed) -> Next:
    """Take up a call whose earlier holder had sent turns: where it stands now.

    Raises:
        Unproven, CallStopped.
    """
    last = take_up(call, done)
    if last.ended is None or last.ended.detail.get("status") == "completed":
        ended = settle_after_death(desk, call, done, last)
        if last.ended is not None and isinstance(ended, EndedTurn):
            ended = replace(ended, end=replace(ended.end, usage=told_end(last).end.usage))
        return ended
    ended = told_end(last)
    # It is counted where it is taken up again.
    done.losses -= ended.cut
    return ended


def take_up(call: AgentCall, done: Progressed) -> SentTurn:
    """Fill in how far earlier holders brought the call; the turn they sent last."""
    state = call.state
    assert state.last_turn is not None
    done.turns += [told_end(turn) for turn in state.turns[:-1] if turn.ended is not None]
    done.turns_sent = state.turns_sent - call.turns_before
    done.creations, done.losses = state.creations, state.cuts
    done.repair_used = state.repair_used
    done.conversation, done.checkpoint = recorded_conversation(call), recorded_checkpoint(call)
    done.repository = next((turn.repository for turn in state.turns if turn.repository is not None), None)
    done.stored = _stored(call)
    return state.last_turn


def recorded_checkpoint(call: AgentCall) -> Mapping[str, Any] | None:
    """The packet that the call's thread is told before its input, as its newest attempt recorded it."""
    row = call.state.checkpoint
    return row.detail.get("packet") if row is not None else None


def _stored(call: AgentCall) -> str | None:
    """The thread of the call that a server can load: one that has had a turn, and is not known to be gone."""
    turns = [turn for turn in call.state.turns if turn.lost is None]
    if call.continues and not call.state.creations:
        return str(call.context["thread"])
    thread = call.state.thread.thread_id if call.state.thread is not None else None
    return thread if any(turn.thread_id == thread for turn in turns) else None


def _look(desk: Desk, call: AgentCall, done: Progressed, sent: SentTurn) -> Sighting:
    assert done.place is not None
    wanted = plan_settings(call, done.place.path)
    last: CrwError | None = None
    for pause in _LOOK_PAUSES_SECONDS:
        try:
            done.connection = desk.connection()
            return look_up(done.connection, wanted, sent)
        except ThreadBusy as error:
            raise Unproven("thread_busy", str(error)) from error
        except (Unreadable, Refused) as error:
            raise Unproven("unreadable", str(error)) from error
        except (AnswerLost, NotSent) as error:
            last = error
            time.sleep(pause)
        except SettingsError as error:
            raise Unproven("host_unavailable", str(error)) from error
    assert last is not None
    raise Unproven("host_unavailable", str(last)) from last


def _prove_lost(desk: Desk, done: Progressed, sent: SentTurn, sighting: Sighting) -> None:
    assert done.connection is not None
    now = desk.origin(done.connection)
    gone = sighting.thread is None
    why = why_unproven(sent, now, thread_gone=gone, low_disk=desk.worker.incarnation.low_disk)
    if why is not None:
        raise Unproven(why, f"the host does not have the turn {sent.operation}, which proves nothing here ({why})")
    detail = {
        "operation": sent.operation,
        "evidence": "no_thread" if gone else "no_turn" if sighting.turn is None else "no_input",
        "turn": sighting.turn.id if sighting.turn is not None else sent.turn_id,
        "thread_gone": gone,
        **now.to_json(),
    }
    desk.note(NewCallRow("turn_lost", detail, thread_id=sent.thread_id, input_state="not_delivered"))
    if gone:
        done.stored = None

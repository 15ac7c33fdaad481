"""A held call goes on in place: same call, directory, thread and pair; what it sends follows what had arrived.

Nothing, where its turns were over and their work alone did not come to the hub: the recorded answer stands.
Delivered: the next turn says that the one before was stopped, and to carry on; it is an
ordinary turn. Where the thread is gone with its home, a new one is told of all that
first. Not delivered: the host is asked first. A thread that this call made and
that had a turn, or a turn that bears the call's mark, is somebody's work that no row
tells of: then nothing is sent, and the outcome is unknown.
Source: journal document, "Held calls".
"""

from __future__ import annotations

from shared.base.errors import Refused, StoreError, ThreadBusy, Unreadable, WorktreeError
from shared.journal import artifacts
from shared.model.outcome import HELD_HOST_LOST, HELD_STATE_CHANGED
from shared.model.rows import NewCallRow
from shared.model.sent_turn import SentTurn
from workers.appserver import AppServerConnection, Thread, thread_source
from workers.call.checkpoint import is_told_to_carry_on, take_checkpoint
from workers.call.context import AgentCall
from workers.call.continuing import recorded_conversation
from workers.call.desk import Desk
from workers.call.directory import make_again, placed_before
from workers.call.ended import told_end
from workers.call.finish import Progressed, Verdict
from workers.call.guarding import arm
from workers.call.input import Input, continue_input, first_input, recorded_input
from workers.call.settle import Held, Next, Unproven, recorded_checkpoint, take_up
from workers.call.thread import plan_settings
from workers.reconcile import Creation, find_creations, read_operations, take_thread
from workers.worktrees.directories import Directories


def go_on_in_place(desk: Desk, call: AgentCall, directories: Directories, done: Progressed) -> Next | Verdict:
    """The first step of a held call that was cleared to go on where it stands; its end where only a push was left.

    Writes: `turn_lost` for a turn that the thread provably does not have; `conversation` where it is not this home's.

    Raises:
        Held: its files are not what it was held with. Unproven. WorktreeError. StoreError. NotSent, AnswerLost.
    """
    state = call.state
    assert state.cleared is not None
    _take_directory(desk, call, directories, done)
    # Where a push alone is left nothing is sent, and its end says where work and answer are, whoever ends it.
    if call.answer_digest is None:
        desk.check_stop()
    done.conversation = recorded_conversation(call)
    done.checkpoint, done.creations = recorded_checkpoint(call), state.creations
    if state.last_turn is not None:
        take_up(call, done)
        if state.last_turn.ended is not None:
            done.turns.append(told_end(state.last_turn))
    elif call.continues and not state.creations:
        done.stored = str(call.context["thread"])
    # What died under it before it was held was counted then.
    done.losses = 0
    if call.answer_digest is not None:
        return _recorded_answer(desk, call.answer_digest)
    if is_told_to_carry_on(call):
        _find_conversation(desk, call, done)
        return continue_input(str(state.cleared.detail.get("reason")))
    try:
        return _ask_host(desk, call, done)
    except ThreadBusy as error:
        raise Unproven("thread_busy", str(error)) from error
    except (Unreadable, Refused) as error:
        raise Unproven("unreadable", str(error)) from error


def _recorded_answer(desk: Desk, digest: str) -> Verdict:
    answer = artifacts.load(desk.worker.database, digest)
    if answer is None:
        raise StoreError(f"the answer {digest} of the held call is not in the journal")
    return Verdict("completed", None, answer, "delivered")


def _take_directory(desk: Desk, call: AgentCall, directories: Directories, done: Progressed) -> None:
    placed = call.state.placed
    if placed is not None and placed.host not in (None, desk.host):
        raise Held(HELD_HOST_LOST, f"the held call stood on host {placed.host}, which was given up since")
    make_again(call, directories, desk)
    place = placed_before(call)
    assert place is not None and call.state.cleared is not None
    if not place.path.is_dir():
        raise WorktreeError(f"the directory of the held call, {place.path}, is gone", path=str(place.path))
    held = call.state.cleared.detail.get("p_held")
    if place.worktree and held is not None:
        found = directories.snapshot(place.path)
        if found != held:
            raise Held(HELD_STATE_CHANGED, f"{place.path} holds {found} and not {held}, which it was held with")
    # From here on what stands there is known to be the call's, and its next end records it.
    done.place = place
    if not call.state.turns:
        arm(done, call, directories)


def _find_conversation(desk: Desk, call: AgentCall, done: Progressed) -> None:
    """Leave a thread of another home: no other can load it. A holder that died had done so already, by its rows."""
    state = call.state
    last, cleared = state.last_turn, state.cleared
    assert cleared is not None
    if state.conversation is not None and state.conversation.seq > cleared.seq:
        done.stored = None
        if state.checkpoint is None or state.checkpoint.seq < state.conversation.seq:
            done.checkpoint = None
    elif last is not None and last.origin is not None and last.origin.home_id != desk.worker.appserver.home_id():
        take_checkpoint(desk, call, done, "other_home")


def _ask_host(desk: Desk, call: AgentCall, done: Progressed) -> Input:
    """What to send when nothing had reached the thread, as far as rows tell."""
    last = call.state.last_turn
    connection = done.connection = desk.connection()
    if last is None:
        if call.state.creations:
            _take_creation(desk, call, done, connection)
        kept = done.place.kept if done.place is not None else ()
        return first_input(kept, continues=call.continues, conversation=done.checkpoint)
    _require_absent(desk, call, done, connection, last)
    done.repair_used = done.repair_used and not last.repair
    return recorded_input(last, continues=call.continues, conversation=done.checkpoint)


def _take_creation(desk: Desk, call: AgentCall, done: Progressed, connection: AppServerConnection) -> None:
    """Take over a thread that the refused request made after all; none is made again under the next ordinal."""
    assert done.place is not None
    wanted = plan_settings(call, done.place.path)
    marks = thread_source(call.claim.run_id, call.claim.call_id, 1).rpartition("/")[0] + "/"
    for creation in find_creations(connection, marks, wanted.cwd):
        if _has_own_turn(call, creation):
            sentence = f"the thread {creation.thread.id} of this call has a turn that no row tells of"
            raise Unproven("creation_has_turns", sentence, thread=creation.thread.id)
        done.thread = _adopt(call, connection, creation.thread)
        if done.thread is not None:
            done.opened = connection
            return


def _has_own_turn(call: AgentCall, creation: Creation) -> bool:
    newest = creation.turns[0].id if creation.turns else None
    return newest is not None and newest != call.context.get("through_turn")


def _adopt(call: AgentCall, connection: AppServerConnection, found: Thread) -> Thread | None:
    """The thread, when a row says that it was made as it was asked for; on this server it is as it was then."""
    row = call.state.thread
    known = row is not None and row.thread_id == found.id and row.detail.get("generation") == connection.generation
    return found if known and (found.model, found.effort) == (call.role.model, call.role.effort) else None


def _require_absent(
    desk: Desk, call: AgentCall, done: Progressed, connection: AppServerConnection, last: SentTurn
) -> None:
    assert done.place is not None
    wanted = plan_settings(call, done.place.path)
    thread = take_thread(connection, wanted, last.thread_id)
    if thread is None and not last.first:
        raise Unproven("thread_missing", f"the thread {last.thread_id} is not on this host")
    turns = list(connection.turns.list_full(last.thread_id)) if thread is not None else []
    for turn in turns:
        if turn.id == last.turn_id or last.operation in read_operations(turn):
            raise Unproven("turn_found", f"the turn {turn.id} bears {last.operation}", turn=turn.id)
    if last.lost is None:
        detail = {
            "operation": last.operation,
            "evidence": "no_thread" if thread is None else "no_turn",
            "thread_gone": thread is None,
            **desk.origin(connection).to_json(),
        }
        desk.note(NewCallRow("turn_lost", detail, thread_id=last.thread_id, input_state="not_delivered"))
    if thread is None:
        done.stored = None

"""The turns of a call, one after the other, until there is an answer or a reason to end without one.

Each turn has one of three fates. Ended: it is judged. Not delivered, which is proven:
its input is sent again under the next ordinal. Cut by the death of its server, which is
proven too: the conversation goes on behind it, in the same thread and directory. What
cannot be proven is nobody's to send again: the call ends `outcome_unknown`.
Source: App Server document, "The App Server backend"; journal document, "Held calls".
"""

from __future__ import annotations

from pathlib import Path

from shared.base.errors import AnswerLost, NotSent, Refused, Unreadable, WorktreeError
from shared.model.rows import NewCallRow
from workers.appserver import AppServerConnection, Thread, pick_answer, thread_source, why_gone
from workers.call.answer import judge_answer
from workers.call.checkpoint import may_be_told, take_checkpoint, tell_checkpoint
from workers.call.context import AgentCall
from workers.call.continuing import Rung
from workers.call.desk import Desk
from workers.call.ended import EndedTurn
from workers.call.finish import Progressed, Verdict
from workers.call.input import Input, continue_input, repair_input, retold_input
from workers.call.settle import Held, Next, Unproven, look_up_after_end, settle
from workers.call.thread import open_thread
from workers.call.turn import TurnLost, run_turn
from workers.claim import CallStopped
from workers.reconcile import archive_orphans

_OPENINGS = 3
_SERVER_ENDED = "the App Server ended"


def converse(desk: Desk, call: AgentCall, done: Progressed, step: Next) -> Verdict:
    """Go on from `step` to the verdict on the call.

    Raises:
        Held, Unproven: how the call ends instead. NotSent, Refused, PairRefused: what stops it.
        BudgetSpent, RunStopping, CallStopped, RightLost.
    """
    while True:
        if isinstance(step, Input):
            step = _send(desk, call, done, step)
            continue
        _remember(done, step)
        following = judge_turn(desk, call, done, step)
        if isinstance(following, Verdict):
            return following
        step = following


def open_conversation(desk: Desk, call: AgentCall, done: Progressed) -> None:
    """Have the call's thread on a live server: loaded again when it has had a turn, else made or forked.

    A thread without a turn has no effect and goes with its server, so one whose creation
    was not answered is simply made again, under the next ordinal. A conversation that is
    gone goes on in a new thread that is told of it, as long as this call has sent nothing to it.

    Raises:
        Held: server after server ended over it. NotSent, Refused, PairRefused.
    """
    assert done.place is not None
    if not done.place.path.is_dir():
        raise WorktreeError(f"the directory of the conversation, {done.place.path}, is gone", path=str(done.place.path))
    done.thread = None
    lost: AnswerLost | NotSent | None = None
    for _ in range(_OPENINGS):
        connection = done.connection = desk.connection()
        try:
            done.thread = _open_on(desk, call, done, connection)
            done.opened = connection
            if lost is not None:
                _put_orphans_aside(call, done.place.path, connection, done.thread)
            return
        except AnswerLost as error:
            lost = error
        except NotSent as error:
            if connection.alive:
                raise
            lost = error
        except Refused as error:
            gone = why_gone(error)
            if gone is None or not may_be_told(call, done):
                raise
            take_checkpoint(desk, call, done, gone)
    raise Held(f"host_infra_{lost.reason if lost else 'refused'}", str(lost or "the conversation cannot be opened"))


def _put_orphans_aside(call: AgentCall, directory: Path, connection: AppServerConnection, used: Thread) -> None:
    """A request without an answer may have made a thread: on a server that still lives it would stay for ever."""
    marks = thread_source(call.claim.run_id, call.claim.call_id, 1).rpartition("/")[0] + "/"
    through_turn = call.context.get("through_turn")
    archive_orphans(connection, marks, str(directory), used.id, str(through_turn) if through_turn else None)


def _open_on(desk: Desk, call: AgentCall, done: Progressed, connection: AppServerConnection) -> Thread:
    assert done.place is not None
    rung = done.conversation.rung if done.conversation is not None else None
    if done.stored is None:
        if not done.turns_sent:
            done.check()
        if rung is Rung.CHECKPOINT and done.checkpoint is None:
            tell_checkpoint(desk, call, done)
        done.creations += 1
    ordinal = max(1, done.creations)
    return open_thread(desk, call, done.place, connection, ordinal=ordinal, stored=done.stored, fork=rung is Rung.FORK)


def check_crashes(desk: Desk, done: Progressed) -> None:
    """Send nothing more for a call under which workers or servers die again and again. Raises Held."""
    crashes = max(desk.claim.crashes, done.losses)
    if crashes >= desk.worker.settings.worker_crash_limit:
        raise Held("worker_crashes", f"{crashes} workers or servers died under this call")


def _send(desk: Desk, call: AgentCall, done: Progressed, given: Input) -> Next:
    check_crashes(desk, done)
    desk.check_stop()
    if done.opened is None or done.opened is not done.connection or not done.opened.alive:
        open_conversation(desk, call, done)
    assert done.thread is not None and done.connection is not None and done.place is not None
    connection, thread_id = done.connection, done.thread.id
    if not done.turns_sent:
        done.check()
    if done.checkpoint is not None and done.stored is None and given.packet["kind"] in ("prompt", "continue"):
        # The thread that was to hear it is gone: the one in its place hears what was said before as well.
        given = retold_input(given, done.place.kept, done.checkpoint)
    done.turns_sent += 1
    done.repair_used = done.repair_used or given.repair
    try:
        return run_turn(
            desk, call, connection, thread_id, done.turns_sent, given,
            first=done.stored != thread_id, directory=done.place.path, repository=done.repository,
        )  # fmt: skip
    except TurnLost as lost:
        return settle(desk, call, done, lost.sent)
    except NotSent as error:
        if connection.alive:
            raise
        # Its server ended before the frame could be written.
        done.losses += 1
        done.repair_used = done.repair_used and not given.repair
        detail = {"evidence": "not_sent", "error": str(error), "thread_gone": done.stored is None}
        desk.note(NewCallRow("turn_lost", detail, thread_id=thread_id, input_state="not_delivered"))
        return given


def _remember(done: Progressed, turn: EndedTurn) -> None:
    done.turns.append(turn)
    done.stored = turn.end.thread_id
    done.losses += turn.cut


def judge_turn(desk: Desk, call: AgentCall, done: Progressed, turn: EndedTurn) -> Verdict | Input:
    """What follows a turn's end: the next input, or the verdict on the call."""
    if turn.cut:
        return continue_input(_SERVER_ENDED)
    if turn.stopped == "worker_stopped":
        if desk.should_stop() == "worker_stopped":
            # The worker stops, not the call: this host's next incarnation goes on with it.
            desk.worker.writer.flush()
            raise CallStopped("worker_stopped")
        return continue_input("the worker was stopped")
    ended = _unanswered(turn)
    if ended is not None:
        return ended
    answer = _answer(desk, call, done, turn)
    if answer is None:
        return Verdict("null_model", "no_answer", input_state="delivered")
    judged = judge_answer(answer, call.schema)
    if judged.result is not None:
        return Verdict("completed", None, judged.result, "delivered")
    if done.repair_used:
        return Verdict("null_model", "schema_invalid", input_state="delivered", facts={"errors": list(judged.errors)})
    return repair_input(judged.errors)


def _unanswered(turn: EndedTurn) -> Verdict | None:
    """The verdict on a turn that did not complete; None for one that did."""
    end = turn.end
    if turn.stopped is not None and end.status != "completed":
        return Verdict("held", turn.stopped, input_state="delivered")
    if end.status == "completed":
        return None
    if end.status == "failed" and end.error is not None:
        word = "quota" if end.error.reason == "quota" else f"host_infra_{end.error.reason}"
        return Verdict(
            "held", word, input_state="delivered", facts={"error": end.error.message, "info": end.error.info}
        )
    return Verdict("held", f"host_infra_{end.status}", input_state="delivered")


def _answer(desk: Desk, call: AgentCall, done: Progressed, turn: EndedTurn) -> str | None:
    """The turn's answer from its events, else from the server's own record of it."""
    answer = pick_answer(turn.end.items)
    if answer is not None:
        return answer
    assert done.connection is not None
    try:
        full = done.connection.turns.read_full(turn.end.thread_id, turn.end.turn_id)
    except (AnswerLost, NotSent):
        full = look_up_after_end(desk, call, done, turn)
    except Unreadable as error:
        # Not read is not empty: there may be an answer.
        raise Unproven("unreadable", str(error)) from error
    return pick_answer(full.items) if full is not None else None

"""An agent call from its claim to its terminal row: the steps in order, and what each way to fail ends in."""

from __future__ import annotations

from shared.base.errors import (
    AnswerLost,
    BudgetSpent,
    CrwError,
    FlowError,
    HostError,
    NotSent,
    Refused,
    RightLost,
    RowRefused,
    RunStopping,
    StoreUnavailable,
)
from shared.base.log import get_logger
from shared.journal.append import Claim
from shared.model import packets
from workers.appserver import pick_answer
from workers.call.answer import judge_answer
from workers.call.context import AgentCall, load_agent_call
from workers.call.desk import Desk
from workers.call.directory import place_call
from workers.call.finish import Progressed, Verdict, settle_state, terminal_row
from workers.call.thread import PairRefused, open_thread
from workers.call.turn import EndedTurn, run_turn
from workers.claim import CallStopped
from workers.worker import Worker
from workers.worktrees.directories import Directories

log = get_logger()
# Rows from which on the App Server may have acted for the call.
_ASKED_THE_SERVER = frozenset({"thread_requested", "fork_requested", "turn_requested", "interrupt_requested"})


def run_agent_call(claim: Claim, worker: Worker) -> None:
    """Work on a claimed agent call until its terminal row is written.

    Raises:
        CallStopped, RightLost, StoreUnavailable, FlowError: the caller decides what becomes of the claim.
    """
    desk = Desk(worker, claim)
    call = load_agent_call(worker, claim)
    directories = Directories(worker.mirrors, worker.settings.state_dir, call.spec, call.prepared)
    done = Progressed()
    verdict = _not_to_run(desk, call) or _work(desk, call, directories, done)
    verdict, columns = settle_state(desk, directories, done, verdict)
    try:
        desk.append(terminal_row(call, done, verdict, columns))
    except RowRefused as error:
        # No call may stay open for what its answer holds.
        refused = Verdict("refused", "result_not_storable", None, verdict.input_state, {"error": str(error)})
        desk.append(terminal_row(call, done, refused, columns))
    log.info(verdict.event, run=claim.run_id, call=claim.call_id, reason=verdict.reason)
    worker.progress.forget(claim)


def _not_to_run(desk: Desk, call: AgentCall) -> Verdict | None:
    """What an earlier worker's death decides, or None: the call may run."""
    asked = [row.event for row in call.rows if row.event in _ASKED_THE_SERVER]
    if asked:
        # Its worker and server are gone (this one has their lock); what they had done by then is not known.
        facts = {"error": "the worker died after it had asked the App Server", "last_intent": asked[-1]}
        return Verdict("outcome_unknown", "worker_died", facts=facts)
    if desk.claim.crashes >= desk.worker.settings.worker_crash_limit:
        return Verdict("held", "worker_crashes", input_state="not_delivered", facts={"crashes": desk.claim.crashes})
    return None


def _work(desk: Desk, call: AgentCall, directories: Directories, done: Progressed) -> Verdict:
    """Every step up to the answer; each failure as the verdict it means."""
    try:
        desk.check_stop()
        done.place = place_call(desk, call, directories)
        desk.check_stop()
        done.connection = desk.connection()
        done.thread = open_thread(desk, call, done.place, done.connection)
        return _converse(desk, call, done)
    except (RightLost, StoreUnavailable, FlowError):
        raise
    except PairRefused as error:
        done.thread = error.thread
        return Verdict("refused", error.reason, input_state="not_delivered", facts={"error": str(error)})
    except AnswerLost as error:
        return Verdict("outcome_unknown", error.reason, facts={"error": str(error)})
    except CallStopped as stopped:
        # Unsent, the claim goes back as it came.
        if stopped.reason == "lost" or not desk.claim.sent:
            raise
        return Verdict("held", stopped.reason, input_state=_input_state(done))
    except RunStopping:
        return Verdict("held", "cancel", input_state=_input_state(done))
    except BudgetSpent as error:
        done.turns_sent -= 1
        return Verdict("held", error.reason, input_state=_input_state(done), facts={"error": str(error)})
    except (NotSent, Refused) as error:
        done.turns_sent = max(0, done.turns_sent - 1)
        return Verdict("held", _infra(error), input_state=_input_state(done), facts={"error": str(error)})
    except CrwError as error:
        return Verdict("held", error.reason, input_state=_input_state(done), facts={"error": str(error)})


def _infra(error: HostError) -> str:
    return error.reason if error.reason == "thread_active" else f"host_infra_{error.reason}"


def _input_state(done: Progressed) -> str:
    return "delivered" if done.turns else "not_delivered"


def _converse(desk: Desk, call: AgentCall, done: Progressed) -> Verdict:
    """The task turn, and when its answer has not the required form, the one repair turn."""
    assert done.place is not None
    text = call.prompt if call.continues else packets.task(call.prompt, kept=done.place.kept).render()
    turn = _turn(desk, call, done, text)
    errors: tuple[str, ...] = ()
    for _ in range(2):
        ended = _unanswered(turn)
        if ended is not None:
            return ended
        answer = _answer(done, turn)
        if answer is None:
            return Verdict("null_model", "no_answer", input_state="delivered")
        judged = judge_answer(answer, call.schema)
        if judged.result is not None:
            return Verdict("completed", None, judged.result, "delivered")
        errors = judged.errors
        if done.repair_used:
            break
        done.repair_used = True
        turn = _turn(desk, call, done, packets.repair(errors).render(), repair=True)
    return Verdict("null_model", "schema_invalid", input_state="delivered", facts={"errors": list(errors)})


def _turn(desk: Desk, call: AgentCall, done: Progressed, text: str, *, repair: bool = False) -> EndedTurn:
    assert done.connection is not None and done.thread is not None
    done.turns_sent += 1
    turn = run_turn(desk, call, done.connection, done.thread.id, done.turns_sent, text, repair=repair)
    done.turns.append(turn)
    return turn


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


def _answer(done: Progressed, turn: EndedTurn) -> str | None:
    """The turn's answer from its events, else from the server's own record of it."""
    answer = pick_answer(turn.end.items)
    if answer is not None:
        return answer
    assert done.connection is not None
    full = done.connection.turns.read_full(turn.end.thread_id, turn.end.turn_id)
    return pick_answer(full.items) if full is not None else None

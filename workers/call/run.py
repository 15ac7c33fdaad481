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
    WorktreeError,
)
from shared.base.log import get_logger
from shared.journal.append import Claim
from shared.model.call_state import Step
from workers.call.context import AgentCall, load_agent_call
from workers.call.conversation import check_crashes, converse, open_conversation
from workers.call.desk import Desk
from workers.call.directory import place_call, placed_before
from workers.call.finish import Progressed, Verdict, settle_state, terminal_row
from workers.call.input import first_input
from workers.call.settle import Next, Unproven, go_on
from workers.call.thread import PairRefused
from workers.claim import CallStopped
from workers.worker import Worker
from workers.worktrees.directories import Directories

log = get_logger()


def run_agent_call(claim: Claim, worker: Worker) -> None:
    """Work on a claimed agent call until its terminal row is written.

    Raises:
        CallStopped, RightLost, StoreUnavailable, FlowError: the caller decides what becomes of the claim.
    """
    desk = Desk(worker, claim)
    call = load_agent_call(worker, claim)
    directories = Directories(worker.mirrors, worker.settings.state_dir, call.spec, call.prepared)
    done = Progressed()
    verdict = _work(desk, call, directories, done)
    verdict, columns = settle_state(desk, directories, done, verdict)
    try:
        desk.append(terminal_row(call, done, verdict, columns))
    except RowRefused as error:
        # No call may stay open for what its answer holds.
        refused = Verdict("refused", "result_not_storable", None, verdict.input_state, {"error": str(error)})
        desk.append(terminal_row(call, done, refused, columns))
    log.info(verdict.event, run=claim.run_id, call=claim.call_id, reason=verdict.reason)
    worker.progress.forget(claim)


def _work(desk: Desk, call: AgentCall, directories: Directories, done: Progressed) -> Verdict:
    """Every step up to the answer; each failure as the verdict it means."""
    try:
        return converse(desk, call, done, _begin(desk, call, directories, done))
    except (RightLost, StoreUnavailable, FlowError):
        raise
    except PairRefused as error:
        done.thread = error.thread
        return Verdict("refused", error.reason, input_state=_input_state(done), facts={"error": str(error)})
    except Unproven as error:
        return Verdict("outcome_unknown", error.reason, facts={"error": str(error), **error.facts})
    except AnswerLost as error:
        return Verdict("outcome_unknown", error.reason, facts={"error": str(error)})
    except CallStopped as stopped:
        # Unsent, the claim goes back as it came; a worker that stops leaves the rest to its successor.
        if stopped.reason in ("lost", "worker_stopped") or not desk.claim.sent:
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


def _begin(desk: Desk, call: AgentCall, directories: Directories, done: Progressed) -> Next:
    """The first step: from the call's start, or from where an earlier holder of it came to.

    A thread that was asked for and had no turn is made again, in the directory that was made for it.
    """
    step = call.state.step
    if step in (Step.TURN_OPEN, Step.TURN_ENDED):
        # What was sent comes first, also for a call that should end: nothing is settled before it is.
        done.place = placed_before(call)
        if done.place is None:
            raise WorktreeError(f"call {call.claim.call_id} has a turn and no directory on record")
        return go_on(desk, call, done)
    check_crashes(desk, done)
    desk.check_stop()
    made = placed_before(call) if step is Step.THREAD_ASKED else None
    done.place = made if made is not None and made.path.is_dir() else place_call(desk, call, directories)
    done.creations = call.state.creations
    done.stored = call.context["thread"] if call.continues else None
    desk.check_stop()
    open_conversation(desk, call, done)
    return first_input(call, done.place.kept)


def _infra(error: HostError) -> str:
    return error.reason if error.reason == "thread_active" else f"host_infra_{error.reason}"


def _input_state(done: Progressed) -> str:
    return "delivered" if done.turns else "not_delivered"

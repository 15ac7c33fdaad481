"""An agent call from its claim to its terminal row: the steps in order, and what each way to fail ends in."""

from __future__ import annotations

from shared.base.errors import (
    AnswerLost,
    BudgetSpent,
    CrwError,
    FlowError,
    GitError,
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
from shared.model.outcome import CANCELLED, RESULT_NOT_STORABLE
from workers.call.checkpoint import is_told_to_carry_on
from workers.call.context import AgentCall, load_agent_call
from workers.call.continuing import Rung, plan_conversation
from workers.call.conversation import check_crashes, converse, open_conversation
from workers.call.desk import Desk
from workers.call.directory import find_boundary, place_call, placed_before
from workers.call.finish import Progressed, Verdict, goes_with_its_end, settle_state, terminal_row
from workers.call.guarding import RestoreMismatch, arm, check_repository, stop_node
from workers.call.in_place import go_on_in_place
from workers.call.input import first_input
from workers.call.leftovers import leave_directory, remove_left
from workers.call.settle import Next, Unproven, go_on, recorded_checkpoint
from workers.call.thread import PairRefused
from workers.claim import LEFT_TO_OTHERS, CallStopped
from workers.worker import Worker
from workers.worktrees.directories import Directories
from workers.worktrees.mirror import PatientMirrors

log = get_logger()


def run_agent_call(claim: Claim, worker: Worker) -> None:
    """Work on a claimed agent call until its terminal row is written.

    Raises:
        CallStopped, RightLost, StoreUnavailable, FlowError: the caller decides what becomes of the claim.
    """
    desk = Desk(worker, claim)
    call = load_agent_call(worker, claim)
    mirrors = PatientMirrors(worker.mirrors, desk.should_stop)
    directories = Directories(mirrors, worker.settings.state_dir, call.spec, call.prepared)
    done = Progressed()
    verdict = _work(desk, call, directories, done)
    verdict = check_repository(directories, done, verdict)
    verdict, columns = settle_state(desk, directories, done, verdict, call.earlier_pending)
    try:
        desk.append(terminal_row(call, done, verdict, columns))
    except RowRefused as error:
        # No call may stay open for what its answer holds.
        refused = Verdict("refused", RESULT_NOT_STORABLE, None, verdict.input_state, {"error": str(error)})
        desk.append(terminal_row(call, done, refused, columns))
    log.info(verdict.event, run=claim.run_id, call=claim.call_id, reason=verdict.reason)
    if goes_with_its_end(done, verdict):
        leave_directory(worker, call, done)
    worker.progress.forget(claim)


def _work(desk: Desk, call: AgentCall, directories: Directories, done: Progressed) -> Verdict:
    """Every step up to the answer; each failure as the verdict it means."""
    try:
        step = _begin(desk, call, directories, done)
        return step if isinstance(step, Verdict) else converse(desk, call, done, step)
    except (RightLost, StoreUnavailable, FlowError):
        raise
    except RestoreMismatch as error:
        return stop_node(desk, error)
    except PairRefused as error:
        done.thread = error.thread
        return Verdict("refused", error.reason, input_state=_input_state(call, done), facts={"error": str(error)})
    except Unproven as error:
        return Verdict("outcome_unknown", error.reason, facts={"error": str(error), **error.facts})
    except AnswerLost as error:
        return Verdict("outcome_unknown", error.reason, facts={"error": str(error)})
    except CallStopped as stopped:
        # Unsent, the claim goes back as it came; a worker that stops leaves the rest to its successor. What had been
        # held is held as before, with what its worktree holds.
        unsent = call.executes and call.state.cleared is None and not desk.claim.sent
        if stopped.reason in LEFT_TO_OTHERS or unsent:
            raise
        return Verdict("held", stopped.reason, input_state=_input_state(call, done))
    except (WorktreeError, GitError) as error:
        # What is stopped in the middle of making a directory, or of a push, fails for that and for nothing else.
        reason = desk.should_stop()
        if reason in LEFT_TO_OTHERS:
            raise CallStopped(reason) from error
        return Verdict(
            "held", reason or error.reason, input_state=_input_state(call, done), facts={"error": str(error)}
        )
    except RunStopping:
        return Verdict("held", CANCELLED, input_state=_input_state(call, done))
    except BudgetSpent as error:
        done.turns_sent -= 1
        return Verdict("held", error.reason, input_state=_input_state(call, done), facts={"error": str(error)})
    except (NotSent, Refused) as error:
        done.turns_sent = max(0, done.turns_sent - 1)
        return Verdict("held", _infra(error), input_state=_input_state(call, done), facts={"error": str(error)})
    except CrwError as error:
        return Verdict("held", error.reason, input_state=_input_state(call, done), facts={"error": str(error)})


def _begin(desk: Desk, call: AgentCall, directories: Directories, done: Progressed) -> Next | Verdict:
    """The first step: from the call's start, or from where an earlier holder of it came to; or the end it has."""
    state = call.state
    if state.cleared is not None and state.placed is not None and not _is_unmade(call):
        remove_left(desk, call)
        return go_on_in_place(desk, call, directories, done)
    if state.step in (Step.TURN_OPEN, Step.TURN_ENDED):
        # What was sent comes first, also for a call that should end: nothing is settled before it is.
        done.place = placed_before(call)
        if done.place is None:
            raise WorktreeError(f"call {call.claim.call_id} has a turn and no directory on record")
        return go_on(desk, call, done)
    check_crashes(desk, done)
    desk.check_stop()
    remove_left(desk, call)
    return _start(desk, call, directories, done)


def _is_unmade(call: AgentCall) -> bool:
    """Whether a held call goes on that was never asked of anybody: its directory, which its end does not name, failed.

    Nothing stands there to go on with: it is placed anew, as one that begins.
    """
    held = next((row for row in reversed(call.rows) if row.event == "held"), None)
    return call.state.step is Step.NOT_ASKED and held is not None and held.worktree_path is None


def _start(desk: Desk, call: AgentCall, directories: Directories, done: Progressed) -> Next:
    """Choose how the conversation goes on, and where; then open it.

    A thread that was asked for and had no turn is made again, in the directory that was made for it.
    """
    restored = find_boundary(call, desk.host, desk.worker.settings.state_dir) is not None
    home_id = desk.worker.appserver.home_id()
    done.conversation = plan_conversation(call, desk.host, home_id, restored=restored)
    if done.conversation is not None and call.state.conversation is None:
        desk.note(done.conversation.row(call))
    made = placed_before(call) if call.state.step is Step.THREAD_ASKED else None
    if made is not None and made.path.is_dir():
        done.place = made
    else:
        done.place = place_call(desk, call, directories, done.conversation)
    arm(done, call, directories)
    done.creations, done.checkpoint = call.state.creations, recorded_checkpoint(call)
    same = done.conversation is not None and done.conversation.rung is Rung.SAME_THREAD
    done.stored = str(call.context["thread"]) if same else None
    desk.check_stop()
    open_conversation(desk, call, done)
    return first_input(done.place.kept, continues=call.continues, conversation=done.checkpoint)


def _infra(error: HostError) -> str:
    return error.reason if error.reason == "thread_active" else f"host_infra_{error.reason}"


def _input_state(call: AgentCall, done: Progressed) -> str:
    # What had arrived before a held call went on has arrived, whatever kept it from going on.
    return "delivered" if done.turns or is_told_to_carry_on(call) else "not_delivered"

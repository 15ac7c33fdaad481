"""`crw flow recover`, the host's part: look an unknown call up once more, and write what is proven.

Nothing is sent to a thread, and until the proof is whole nothing is written but what is
the same whenever it is written: the transcript by its digest, the call's own pending
ref. Then all rows go in one transaction: `recovery_cleared`, the turn's end or the proof
that it was not delivered, the terminal row. A proof that does not hold writes nothing.
Source: journal document, "crw flow recover".
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from shared.base.errors import CrwError, NotSent, StoreUnavailable
from shared.base.log import get_logger
from shared.journal import read, runs
from shared.journal.append import Claim
from shared.journal.questions import Question
from shared.journal.recovery import load_claim, write_recovery
from shared.model.call_state import read_call_state
from shared.model.rows import CallRow, NewCallRow
from workers.call.context import AgentCall, load_agent_call
from workers.call.conversation import judge_turn
from workers.call.desk import Desk
from workers.call.directory import placed_before
from workers.call.finish import Progressed, Verdict, goes_with_its_end, settle_state, terminal_row
from workers.call.guarding import check_repository
from workers.call.input import Input
from workers.call.leftovers import leave_directory
from workers.call.settle import Held, Next, Unproven, settle, settle_after_death, take_up
from workers.worker import Worker
from workers.worktrees.directories import Directories

log = get_logger()
RECOVERED = "recovered"


class _RecoveryDesk(Desk):
    """Keeps the rows for the one transaction at the end; no claim stands behind it."""

    def __init__(self, worker: Worker, claim: Claim) -> None:
        super().__init__(worker, claim)
        self.rows: list[NewCallRow] = []

    def append(self, row: NewCallRow) -> None:
        self.rows.append(row)

    def note(self, row: NewCallRow) -> None:
        self.rows.append(row)

    def should_stop(self) -> str | None:
        return "worker_stopped" if self.worker.stopping.is_set() else None

    def check(self, method: str, _params: Any) -> None:
        raise NotSent(f"{method} is not sent for a call that is only looked up")


def recover_call(worker: Worker, question: Question) -> dict[str, Any]:
    """Answer the question what became of a call.

    Writes: the rows of the recovery with the answer, when the outcome is proven.

    Returns:
        The answer. Shape: `proven`; then `status` and `reason` of the call's end; else `reason`, `sentence`.

    Raises:
        StoreUnavailable: to be asked again.
    """
    try:
        return _recover(worker, question)
    except StoreUnavailable:
        raise
    except CrwError as error:
        log.info("not_recovered", run=question.run_id, call=question.call_id, why=str(error))
        return {"proven": False, "reason": error.reason, "sentence": str(error)}


def _recover(worker: Worker, question: Question) -> dict[str, Any]:
    claim = load_claim(worker.database, question.call_id or "")
    if claim is None or claim.kind != "agent":
        raise Unproven("no_agent_call", "only the outcome of an agent call can be looked up on its host")
    rows = read.load_call(worker.database, claim.call_id)
    state = read_call_state(rows)
    if not state.is_unknown or state.terminal is None or state.terminal.attempt != claim.attempt:
        raise Unproven("not_unknown", f"the outcome of call {claim.call_id} is not unknown any more")
    # Before anything is looked up: the rows are refused when somebody began to remove what there is to see.
    run = runs.run_state(worker.database, claim.run_id)
    cleaned_at = run.cleaned_at if run is not None else None
    desk = _RecoveryDesk(worker, claim)
    call = load_agent_call(worker, claim)
    done = Progressed(place=placed_before(call))
    directories = Directories(worker.mirrors, worker.settings.state_dir, call.spec, call.prepared)
    verdict = check_repository(directories, done, _verdict(desk, call, done))
    _refuse_removed(desk, state.terminal, cleaned_at)
    settled, columns = settle_state(desk, directories, done, verdict, call.earlier_pending)
    if settled.event != verdict.event:
        raise Unproven(settled.reason or "state", str(settled.facts.get("error")))
    cleared = NewCallRow(
        "recovery_cleared",
        {"was": state.terminal.detail.get("reason"), "question": question.question_id, **_where(desk, done)},
    )
    found = {"proven": True, "status": settled.event, "reason": settled.reason}
    end = terminal_row(call, done, settled, columns)
    write_recovery(
        worker.database, worker.incarnation.worker_id, question, claim, (cleared, *desk.rows, end), found, cleaned_at
    )
    if goes_with_its_end(done, settled):
        leave_directory(worker, call, done)
    log.info("recovered", run=claim.run_id, call=claim.call_id, status=settled.event)
    return found


def _refuse_removed(desk: _RecoveryDesk, end: CallRow, cleaned_at: datetime | None) -> None:
    """Take no absence for a proof that the farm may have made itself: a clean removes a run's threads."""
    absent = any(row.event == "turn_lost" for row in desk.rows)
    if absent and cleaned_at is not None and cleaned_at > end.written_at:
        raise Unproven("cleaned", "what the run left was removed since, so that its host has nothing proves nothing")


def _verdict(desk: Desk, call: AgentCall, done: Progressed) -> Verdict:
    """How the call ends by what the host has of its last turn. Raises Unproven."""
    if call.state.last_turn is None:
        return Verdict("held", RECOVERED, input_state="not_delivered")
    last = take_up(call, done)
    if done.place is None:
        raise Unproven("no_directory", "no row says where the call ran")
    try:
        step = _look(desk, call, done)
    except Unproven:
        raise
    except Held as held:
        return Verdict("held", held.reason, input_state="not_delivered")
    if isinstance(step, Input):
        return Verdict("held", RECOVERED, input_state="not_delivered")
    done.turns.append(step)
    judged = judge_turn(desk, call, done, step)
    if isinstance(judged, Input):
        return Verdict("held", last.interrupt or RECOVERED, input_state="delivered")
    return judged


def _look(desk: Desk, call: AgentCall, done: Progressed) -> Next:
    last = call.state.last_turn
    assert last is not None
    done.connection = desk.connection()
    if last.origin is not None and last.origin.generation == done.connection.generation:
        # The server that was asked still runs: that it lacks the turn proves nothing before it has ended.
        return settle(desk, call, done, last, follow=False)
    return settle_after_death(desk, call, done, last, follow=False)


def _where(desk: Desk, done: Progressed) -> dict[str, Any]:
    return desk.origin(done.connection).to_json() if done.connection is not None else {"host": desk.host}

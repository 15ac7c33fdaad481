"""From a message to an ended call: claim it, run it, and never leave it claimed with nobody on it."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.base.errors import CrwError, FlowError, RightLost, RowRefused, RunStopping, StoreUnavailable
from shared.base.log import get_logger
from shared.broker.names import AGENT_KIND
from shared.journal import claims
from shared.journal.append import Claim
from shared.journal.claims import Ask, Denied
from shared.model.events import TERMINAL_WORDS
from shared.model.outcome import CANCELLED
from shared.model.rows import NewCallRow
from workers.claim import CallStopped, Hand
from workers.worker import Worker

_RETRY_SECONDS = 0.5
log = get_logger()

Runner = Callable[[Claim, Worker], None]


class Caller:
    """Takes calls and hands each to the runner of its kind."""

    def __init__(self, worker: Worker, run_op: Runner, run_agent: Runner) -> None:
        self._worker = worker
        self._run_op = run_op
        self._run_agent = run_agent

    def take(self, call_id: str, request_id: str) -> bool:
        """Claim a call and work on it to its end.

        Returns:
            False when the claim was denied: somebody else has it, or it needs nobody any more.
        """
        worker = self._worker
        if worker.stopping.is_set() or worker.incarnation.low_disk:
            return False
        hand = worker.hands.begin(call_id)
        try:
            granted = self._claim(hand, call_id, request_id)
            if isinstance(granted, Denied):
                log.debug("claim_denied", call=call_id, why=granted.reason)
                return False
            hand.claim, hand.granted_at = granted, time.monotonic()
            if granted.stop is not None:
                hand.tell(granted.stop)
            log.debug("claimed", run=granted.run_id, call=call_id, fence=granted.fence)
            self._work(hand, granted)
            return True
        finally:
            worker.hands.end(hand)
            # Of a terminal row the writer has told already; a call that is left is waited for by whoever shows it.
            if hand.claim is not None and not hand.claim.ended:
                worker.wakeups.tell(hand.claim.run_id)

    def _claim(self, hand: Hand, call_id: str, request_id: str) -> Claim | Denied:
        worker = self._worker
        give_up_at = time.monotonic() + worker.settings.lease_seconds
        while True:
            try:
                # The same grant again gets the same fence: an answer that was lost costs nothing.
                return worker.counter.ask(Ask(call_id, request_id, hand.grant_id))
            except StoreUnavailable:
                if worker.stopping.wait(_RETRY_SECONDS) or time.monotonic() > give_up_at:
                    return Denied("store")

    def _work(self, hand: Hand, claim: Claim) -> None:
        runner = self._run_agent if claim.kind == AGENT_KIND else self._run_op
        try:
            runner(claim, self._worker)
        except RightLost:
            hand.lose()
            log.warning("claim_lost", run=claim.run_id, call=claim.call_id)
        except CallStopped as stopped:
            self._stop(hand, claim, stopped.reason)
        except RunStopping:
            self._stop(hand, claim, CANCELLED)
        except StoreUnavailable as error:
            self._give_back(hand, claim, str(error))
        except FlowError as error:
            self._end(hand, claim, NewCallRow("refused", {"reason": error.reason, "error": str(error)}))
        except CrwError as error:
            log.warning("call_failed", run=claim.run_id, call=claim.call_id, why=str(error))
            self._end(hand, claim, _failed(claim, error.reason, str(error)))
        except Exception as error:
            log.exception("call_broke", run=claim.run_id, call=claim.call_id)
            self._end(hand, claim, _failed(claim, "worker_error", f"{type(error).__name__}: {error}"))

    def _stop(self, hand: Hand, claim: Claim, reason: str) -> None:
        if reason == "lost":
            return
        if reason == "worker_stopped":
            # Unsent it goes back at once; sent it stays claimed, stranded for this host's next incarnation.
            self._release(hand, claim)
            return
        self._end(hand, claim, NewCallRow("held", {"reason": reason}))

    def _give_back(self, hand: Hand, claim: Claim, sentence: str) -> None:
        """The database went away in the middle: unsent, the call is open again; sent, it ends with that reason."""
        if not self._release(hand, claim):
            self._end(hand, claim, _failed(claim, StoreUnavailable.reason, sentence))

    def _release(self, hand: Hand, claim: Claim) -> bool:
        while not hand.lost.is_set():
            try:
                return claims.release(self._worker.database, claim)
            except StoreUnavailable:
                if self._worker.stopping.wait(_RETRY_SECONDS):
                    return False
        return True

    def _end(self, hand: Hand, claim: Claim, row: NewCallRow) -> None:
        while not hand.lost.is_set():
            try:
                self._worker.writer.append(claim, row)
                return
            except RightLost:
                hand.lose()
            except RowRefused:
                row = NewCallRow(row.event, {"reason": row.detail["reason"]})
            except StoreUnavailable:
                # The database will be back; until then nobody else can have the call either.
                if self._worker.stopping.wait(_RETRY_SECONDS):
                    return


def _failed(claim: Claim, reason: str, sentence: str) -> NewCallRow:
    """The terminal row of a call whose runner gave up: unknown where a model may have been asked, else held."""
    word = "outcome_unknown" if claim.sent and claim.kind == AGENT_KIND else "held"
    assert word in TERMINAL_WORDS
    return NewCallRow(word, {"reason": reason, "error": sentence})

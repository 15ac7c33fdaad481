"""The host's duty to answer what is asked of it: a loop of its own, whatever its slots are busy with.

A question is heard at once over the wake-ups and found at the latest by the next look.
Each is answered in a thread of its own, so that a proof never waits behind a recovery.
Source: rules of the protocol, 25 and 26.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from shared.base.errors import StoreError
from shared.base.log import get_logger
from shared.broker.names import host_mark
from shared.journal import questions
from shared.journal.questions import Question
from workers.worker import Worker

_AT_ONCE = 4
log = get_logger()

Answerer = Callable[[Worker, Question], dict[str, Any]]


class Questions:
    """Answers the questions of this host.

    Args:
        answerers: what answers each kind; it never raises but for a store that is away.
    """

    def __init__(self, worker: Worker, answerers: Mapping[str, Answerer]) -> None:
        self._worker = worker
        self._answerers = answerers
        self._woken = threading.Event()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="question")
        self._in_hand: dict[str, Future[None]] = {}

    def loop(self) -> None:
        """Subscribe, then look, then wait: for a wake-up, at most `poll_seconds`; until the worker stops."""
        worker = self._worker
        worker.wakeups.subscribe(self._hear)
        while not worker.stopping.is_set():
            try:
                self._take_open()
            except StoreError:
                log.debug("questions_unread")
            self._woken.wait(worker.settings.poll_seconds)
            self._woken.clear()

    def answer_open(self) -> int:
        """Answer what is open and return when it is answered; how many were."""
        taken = self._take_open()
        wait(taken)
        for future in taken:
            future.result()
        return len(taken)

    def _hear(self, told: str) -> None:
        if told == host_mark(self._worker.host):
            self._woken.set()

    def _take_open(self) -> list[Future[None]]:
        self._in_hand = {asked: future for asked, future in self._in_hand.items() if not future.done()}
        taken = []
        for question in questions.open_questions(self._worker.database, self._worker.host):
            if question.question_id not in self._in_hand:
                future = self._pool.submit(self._answer, question)
                self._in_hand[question.question_id] = future
                taken.append(future)
        return taken

    def _answer(self, question: Question) -> None:
        worker = self._worker
        answerer = self._answerers.get(question.kind)
        if answerer is None:
            found = _not_proven("unknown_question", f"this worker has no answer to {question.kind}")
        else:
            try:
                found = answerer(worker, question)
            except StoreError as error:
                log.info("not_answered", run=question.run_id, kind=question.kind, why=str(error))
                return
            except Exception as error:
                # Who asked hears of it, and the other questions go on.
                log.exception("question_broke", run=question.run_id, call=question.call_id)
                found = _not_proven("worker_error", f"{type(error).__name__}: {error}")
        try:
            # Where rows were written the answer went with them; this one then changes nothing.
            questions.answer(worker.database, question.question_id, worker.incarnation.worker_id, found)
        except StoreError as error:
            log.info("not_answered", run=question.run_id, kind=question.kind, why=str(error))
            return
        worker.wakeups.tell(question.run_id)


def _not_proven(reason: str, sentence: str) -> dict[str, Any]:
    return {"proven": False, "reason": reason, "sentence": sentence}

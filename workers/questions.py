"""The host's duty to answer what is asked of it: a loop of its own, whatever its slots are busy with.

Source: rules of the protocol, 25 and 26.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.base.errors import StoreError
from shared.base.log import get_logger
from shared.journal import questions
from shared.journal.questions import Question
from workers.worker import Worker

log = get_logger()

Answerer = Callable[[Worker, Question], dict[str, Any]]


class Questions:
    """Answers the questions of this host, one after the other.

    Args:
        answerers: what answers each kind; it never raises but for a store that is away.
    """

    def __init__(self, worker: Worker, answerers: Mapping[str, Answerer]) -> None:
        self._worker = worker
        self._answerers = answerers

    def loop(self) -> None:
        """Look for questions until the worker stops."""
        worker = self._worker
        while not worker.stopping.wait(worker.settings.poll_seconds):
            try:
                self.answer_open()
            except StoreError:
                log.debug("questions_unread")

    def answer_open(self) -> int:
        """Answer what is open; how many were."""
        worker = self._worker
        asked = questions.open_questions(worker.database, worker.host)
        for question in asked:
            answerer = self._answerers.get(question.kind)
            if answerer is None:
                found = _not_proven("unknown_question", f"this worker has no answer to {question.kind}")
            else:
                found = _answer(answerer, worker, question)
            # Where rows were written the answer went with them; this one then changes nothing.
            questions.answer(worker.database, question.question_id, worker.incarnation.worker_id, found)
            worker.wakeups.tell(question.run_id)
        return len(asked)


def _answer(answerer: Answerer, worker: Worker, question: Question) -> dict[str, Any]:
    try:
        return answerer(worker, question)
    except StoreError:
        raise
    except Exception as error:
        # Who asked hears of it, and the loop goes on: it is the host's only one.
        log.exception("question_broke", run=question.run_id, call=question.call_id)
        return _not_proven("worker_error", f"{type(error).__name__}: {error}")


def _not_proven(reason: str, sentence: str) -> dict[str, Any]:
    return {"proven": False, "reason": reason, "sentence": sentence}

"""Questions to a host: what only its worker can look up. Asked by anybody, answered once, by a live worker.

A question outlives every message and every process; a host that is silent answers when
it is back. Source: rules of the protocol, 26.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from shared.journal.database import Database, retrying
from shared.journal.queries import asking
from shared.model.proof import PROOFS

__all__ = [
    "PROOFS",
    "RECOVER",
    "HostStanding",
    "Question",
    "answer",
    "ask",
    "host_standing",
    "hosts_of_run",
    "load_answer",
    "open_questions",
    "workers_of_other_homes",
]

RECOVER = "recover"


@dataclass(frozen=True)
class Question:
    """What a host is asked. Shape: `epoch` the run's lease epoch when it was asked."""

    question_id: str
    host: str
    kind: str
    run_id: str
    call_id: str | None
    epoch: int


@dataclass(frozen=True)
class HostStanding:
    """How far a host can answer.

    Shape: `state` up, draining or lost; `alive` while its worker's lease runs; `moved` when its home is another one
    than the worker had that was named.
    """

    state: str
    alive: bool
    moved: bool = False

    @property
    def is_given_up(self) -> bool:
        """Whether nobody can ask that home any more."""
        return self.state == "lost" or self.moved


def ask(
    database: Database, host: str, kind: str, run_id: str, call_id: str | None = None, *, epoch: int | None = None
) -> str:
    """Ask a host, or join who asked the same before and has no answer yet; the question's id.

    Args:
        epoch: the lease epoch under which the answer counts; None for one that counts whenever it comes.
    """
    values = {
        "question": str(uuid.uuid4()), "host": host, "kind": kind, "run": run_id, "call": call_id, "epoch": epoch,
    }  # fmt: skip

    def put() -> str:
        with database.transaction() as connection:
            return str(connection.execute(asking.ask(), values).scalar_one())

    return retrying(put)


def open_questions(database: Database, host: str, limit: int = 100) -> list[Question]:
    """What the host has not answered, the oldest first."""

    def read() -> list[Question]:
        with database.statement() as connection:
            rows = connection.execute(asking.open_questions(), {"host": host, "limit": limit})
            return [Question(**row._mapping) for row in rows]

    return retrying(read)


def answer(database: Database, question_id: str, worker_id: str, found: dict[str, Any]) -> bool:
    """Answer a question; False when it was answered before, or this worker may not."""
    values = {"question": question_id, "worker": worker_id, "answer": json.dumps(found)}

    def put() -> bool:
        with database.transaction() as connection:
            return connection.execute(asking.answer(), values).first() is not None

    return retrying(put)


def load_answer(database: Database, question_id: str) -> dict[str, Any] | None:
    """The answer, None while there is none."""

    def read() -> dict[str, Any] | None:
        with database.statement() as connection:
            text = connection.execute(asking.load_answer(), {"question": question_id}).scalar()
            return None if text is None else dict(json.loads(text))

    return retrying(read)


def host_standing(database: Database, host: str, worker_id: str | None = None) -> HostStanding | None:
    """How a host stands now, and since an earlier worker of it; None for one that the farm does not know."""

    def read() -> HostStanding | None:
        with database.statement() as connection:
            row = connection.execute(asking.host_standing(), {"host": host, "worker": worker_id}).first()
            return HostStanding(**row._mapping) if row else None

    return retrying(read)


def workers_of_other_homes(database: Database, host: str) -> frozenset[str]:
    """The workers of a host's name that had another home than it has now: what they made went with that home."""

    def read() -> frozenset[str]:
        with database.statement() as connection:
            return frozenset(connection.execute(asking.workers_of_other_homes(), {"host": host}).scalars())

    return retrying(read)


def hosts_of_run(database: Database, run_id: str) -> list[str]:
    """The hosts on which nodes of a run lie, given up or not."""

    def read() -> list[str]:
        with database.statement() as connection:
            return list(connection.execute(asking.hosts_of_run(), {"run": run_id}).scalars())

    return retrying(read)

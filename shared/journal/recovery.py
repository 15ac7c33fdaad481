"""Write what was proven about a call that had ended unknown: all rows of it and the answer, in one transaction.

The call's claim is ended and stays so: the rows are one more attempt in place, from
`recovery_cleared` to the terminal row. Nothing is written while a scheduler drives the
run: its script was given the unknown outcome and may be acting on it.
Source: journal document, "crw flow recover".
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import Any

import psycopg2
from sqlalchemy import Connection, func, insert

from shared.base.crashpoint import crashpoint
from shared.base.errors import StoreError
from shared.journal.database import Database, retrying
from shared.journal.encoding import Encoded, encode
from shared.journal.members import CallRows, Claim
from shared.journal.meta import WRITER
from shared.journal.queries import asking
from shared.journal.questions import Question
from shared.journal.removals import lock_against_removal
from shared.journal.results import put_results
from shared.journal.tables import flow_calls
from shared.model.rows import NewCallRow


class NotRecovered(StoreError):
    """The rows were not written: somebody drives the run, or the call is not what it was."""

    reason = "not_recoverable"


def load_claim(database: Database, call_id: str) -> Claim | None:
    """A call's claim as a value, with no right to anything; None when there is none."""

    def read() -> Claim | None:
        with database.statement() as connection:
            row = connection.execute(asking.claim_of(), {"call": call_id}).first()
            return None if row is None else Claim(**row._mapping, grant_id="", rows_written=0)

    return retrying(read)


def write_recovery(
    database: Database,
    worker_id: str,
    question: Question,
    claim: Claim,
    rows: tuple[NewCallRow, ...],
    found: dict[str, Any],
    cleaned_at: datetime | None,
) -> None:
    """Commit the rows of a recovery and the answer to the question that asked for it.

    Args:
        claim: the call as it ended unknown, from `load_claim`.
        rows: from `recovery_cleared` to the terminal row.
        cleaned_at: when the run was cleaned last, as it was known before anything was looked up.

    Raises:
        NotRecovered: nothing was written. RowRefused: a row is none the journal can store.
    """
    again = Claim(**{**_plain(claim), "attempt": claim.attempt + 1, "fence": claim.fence + 1})
    encoded = encode(CallRows(again, rows))
    put_results(database, encoded.large)

    answer = json.dumps(found)

    def write() -> None:
        with database.transaction() as connection:
            stored = connection.execute(asking.load_answer(), {"question": question.question_id}).scalar()
            if stored == answer:
                return  # an earlier try was committed, its answer was lost
            crashpoint("before:recovery_cleared", partial(_cut, connection))
            first = _lock(connection, worker_id, claim, cleaned_at)
            _insert(connection, encoded, first, question.host)
            size = {"rows": encoded.size, "run": claim.run_id, "call": claim.call_id}
            connection.execute(asking.count_rows(), size)
            connection.execute(asking.reopen_claim(), size)
            values = {"question": question.question_id, "worker": worker_id, "answer": answer}
            if connection.execute(asking.answer(), values).first() is None:
                raise NotRecovered(f"the question about call {claim.call_id} was answered meanwhile")
        crashpoint("after:recovery_cleared", _cut)

    retrying(write)


def write_given_up(database: Database, claim: Claim, host: str, worker_id: str | None, facts: dict[str, Any]) -> None:
    """Take back a call that ended unknown on a host that was given up since: a resume of its run does it again.

    Args:
        claim: the call as it ended unknown, from `load_claim`.
        host, worker_id: who worked on it.
        facts: the detail of the row.

    Writes: `superseded`, in the attempt that ended unknown.

    Raises:
        NotRecovered: nothing was written.
    """
    encoded = encode(CallRows(claim, (NewCallRow("superseded", facts, role=claim.role, label=claim.label),)))

    def write() -> None:
        with database.transaction() as connection:
            if connection.execute(asking.host_given_up(), {"host": host, "worker": worker_id}).first() is None:
                raise NotRecovered(f"host {host} is back with what it had; recover the call again, to look it up there")
            first = _lock_ended(connection, claim).next_seq
            if connection.execute(asking.taken_back(), {"call": claim.call_id, "attempt": claim.attempt}).first():
                return  # by another command, or an earlier try whose answer was lost
            _insert(connection, encoded, first, None)
            connection.execute(asking.count_rows(), {"rows": encoded.size, "run": claim.run_id})

    retrying(write)


def _cut(connection: Connection | None = None) -> None:
    if connection is not None:
        connection.invalidate()
    raise psycopg2.OperationalError("the connection was cut at a named point")


# Encoded name -> column, where they differ.
_COLUMNS = {"run": "run_id", "call": "call_id", "node": "node_id", "request": "request_id", "detail": "detail_json"}


def _insert(connection: Connection, encoded: Encoded, first: int, host: str | None) -> None:
    results = {id(row): result for row, result in encoded.results}
    for number, row in enumerate(encoded.rows):
        values = {_COLUMNS.get(name, name): value for name, value in row.items()}
        connection.execute(
            insert(flow_calls).values(
                **values,
                seq=first + number,
                result=results.get(id(row)),
                host=host,
                written_at=func.clock_timestamp(),
                writer=WRITER,
            )
        )


def _plain(claim: Claim) -> dict[str, Any]:
    return {name: value for name, value in vars(claim).items() if name != "failed"}


def _lock(connection: Connection, worker_id: str, claim: Claim, cleaned_at: datetime | None) -> int:
    """Lock worker, claim and run, in that order; the run's next number."""
    if connection.execute(asking.worker_to_recover(), {"worker": worker_id}).first() is None:
        raise NotRecovered("this worker was declared dead")
    run = _lock_ended(connection, claim)
    if run.cleaned_at != cleaned_at:
        raise NotRecovered(f"what run {claim.run_id} left was removed while the call was looked up; recover it again")
    return int(run.next_seq)


def _lock_ended(connection: Connection, claim: Claim) -> Any:
    """Lock the claim of a call that has ended, and its run that nobody drives; the run's next number and last clean."""
    right = {"call": claim.call_id, "attempt": claim.attempt}
    if connection.execute(asking.claim_to_recover(), right).first() is None:
        raise NotRecovered(f"call {claim.call_id} has gone on meanwhile")
    for cleaner in lock_against_removal(connection, claim.run_id):
        raise NotRecovered(cleaner.sentence())
    run = connection.execute(asking.run_to_recover(), {"run": claim.run_id}).first()
    if run is None:
        raise NotRecovered(f"run {claim.run_id} is being driven; recover the call when it has ended")
    return run

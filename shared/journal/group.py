"""One group on its way to `crw_append` and back: one round trip, repeated until its fate is known."""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg2

from shared.base.crashpoint import crashpoint
from shared.base.errors import BudgetSpent, RightLost, RowRefused, RunStopping, StoreError
from shared.journal.database import Database
from shared.journal.encoding import Encoded
from shared.journal.members import Claim
from shared.journal.parameters import Group, Right, append_parameters, judge_parameters, runs_of
from shared.journal.postgres_errors import is_lost, is_retryable
from shared.journal.queries.writing import APPEND, JUDGE, STORED_BY_CLAIM, STORED_BY_LEASE

_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 2.0
_CLOSE_SECONDS = 5.0
_SENTENCES = {
    "lost": (RightLost, "the right to write is gone: another holder, an ended run or a newer lease"),
    "stopping": (RunStopping, "the run is stopping: no intent may commit any more"),
    "budget": (BudgetSpent, "the run's cap on turns is reached"),
    "live": (RowRefused, "one of these calls has a live or a newer attempt"),
    "busy": (StoreError, "the run cannot finish: calls are open, claimed or stranded"),
}


@dataclass(frozen=True)
class Verdict:
    """What became of a member: ok or stored, again (nothing is wrong with it: send it again), or why it was refused.

    Shape: `count` is the right's count of rows as stored, where the member was `stored`.
    """

    status: str
    seqs: tuple[int, ...] = ()
    withdrawn: int = 0
    queues: dict[str, str] = field(default_factory=dict)
    count: int = 0


def refusal(status: str, encoded: Encoded, error: psycopg2.Error | None) -> StoreError:
    """The error a refused member raises."""
    facts: dict[str, Any] = {"run": encoded.run_id}
    where = f"run {encoded.run_id}"
    if encoded.call_id is not None:
        facts["call"] = encoded.call_id
        where = f"call {encoded.call_id}"
    if error is not None:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return RowRefused(f"{where}: the database refuses {', '.join(encoded.words)}: {said}", **facts)
    kind, sentence = _SENTENCES[status]
    return kind(f"{where}: {sentence}", **facts)


class AppendConnection:
    """The writer's own connection: sends a group until the database has answered."""

    def __init__(self, database: Database, host: str | None, give_up_seconds: float) -> None:
        self._database = database
        self._host = host
        self._give_up_seconds = give_up_seconds
        self._connection: Any = None

    def hurry(self) -> None:
        """The process is stopping: give up after a few seconds from now on."""
        self._give_up_seconds = min(self._give_up_seconds, _CLOSE_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, group: Group) -> list[Verdict]:
        """The verdict on each member, in order.

        Either all are `ok` and written, or nothing is written.

        Raises:
            StoreUnavailable: no answer within the time to give up; what was sent may have been stored.
            psycopg2.Error: the database refuses the content of a member; nothing was stored.
        """
        parameters = append_parameters(self._host, group)
        started = time.monotonic()
        pause = _PAUSE_SECONDS
        repeated = False
        while True:
            try:
                if self._connection is None:
                    self._connection = self._database.connect_raw()
                with self._connection.cursor() as cursor:
                    self._pass_points("before", group)
                    _execute(cursor, parameters)
                    answer = cursor.fetchone()
                    if answer[0]:
                        self._pass_points("after", group)
                    return _written(group, *answer) if answer[0] else self._judge(cursor, group, repeated)
            except psycopg2.Error as error:
                if not is_retryable(error):
                    raise
                if is_lost(error):
                    repeated = True
                    self._drop_connection()
                if time.monotonic() + pause - started > self._give_up_seconds:
                    raise self._database.unavailable(error) from error
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)

    def _pass_points(self, when: str, group: Group) -> None:
        for _, encoded in group:
            for event in encoded.words:
                crashpoint(f"{when}:{event}", self._cut)

    def _cut(self) -> None:
        self._connection.close()
        raise psycopg2.OperationalError("the connection was cut at a named point")

    def _drop_connection(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg2.Error):
                self._connection.close()
            self._connection = None

    def _judge(self, cursor: Any, group: Group, repeated: bool) -> list[Verdict]:
        cursor.execute(JUDGE, judge_parameters(group))
        verdicts = []
        for (right, encoded), (status, count) in zip(group, cursor.fetchone()[0], strict=True):
            if status == "ok":
                verdicts.append(Verdict("again"))
            elif status != "stored":
                verdicts.append(Verdict(status))
            elif repeated:
                verdicts.append(Verdict("stored", _stored(cursor, right, encoded, count), count=count))
            else:
                # Nobody repeated anything: somebody else wrote under this right.
                verdicts.append(Verdict("lost"))
        return verdicts


def _execute(cursor: Any, parameters: dict[str, Any]) -> None:
    try:
        cursor.execute(APPEND, parameters)
    except ValueError as error:
        # Nothing was sent: some text is one that no statement can hold.
        raise psycopg2.DataError(str(error)) from error


def _written(group: Group, firsts: list[int], withdrawn: int, queues: dict[str, str] | None) -> list[Verdict]:
    first = dict(zip(runs_of(group), firsts, strict=True))
    return [
        Verdict(
            "ok",
            tuple(range(first[encoded.run_id] + encoded.start, first[encoded.run_id] + encoded.start + encoded.size)),
            withdrawn=withdrawn if encoded.withdraw else 0,
            queues=queues or {},
        )
        for _, encoded in group
    ]


def _stored(cursor: Any, right: Right, encoded: Encoded, count: int) -> tuple[int, ...]:
    """The numbers of rows that an earlier try of this group wrote."""
    if isinstance(right, Claim):
        cursor.execute(STORED_BY_CLAIM, {"call": right.call_id, "fence": right.fence})
        return _share([row[0] for row in cursor.fetchall()][right.rows_written :], encoded)
    cursor.execute(STORED_BY_LEASE, {"run": right.run_id, "limit": count - right.rows_written})
    return _share([row[0] for row in reversed(cursor.fetchall())], encoded)


def _share(seqs: list[int], encoded: Encoded) -> tuple[int, ...]:
    # What a withdrawal wrote stands in front; such a member is alone in its group.
    start = len(seqs) - encoded.size if encoded.withdraw else encoded.before
    return tuple(seqs[start : start + encoded.size])

"""One group on its way to `crw_append` and back: one round trip, repeated until its fate is known."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg2

from shared.base.errors import BudgetSpent, RightLost, RowRefused, RunStopping, StoreError, StoreUnavailable
from shared.journal.database import Database, is_lost, is_retryable
from shared.journal.encoding import Encoded
from shared.journal.members import Claim, RunLease
from shared.journal.meta import WRITER
from shared.journal.queries.writing import APPEND, STORED_BY_CLAIM, STORED_BY_LEASE

Right = Claim | RunLease
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
    """What the database says of a member. `count`: rows written now (ok), else the right's count as stored."""

    status: str
    count: int
    seqs: tuple[int, ...]
    queues: dict[str, str]


def refusal(status: str, encoded: Encoded, error: psycopg2.Error | None) -> StoreError:
    """The error a refused member raises."""
    facts: dict[str, Any] = {"run": encoded.run_id}
    where = f"run {encoded.run_id}"
    if encoded.call_id is not None:
        facts["call"] = encoded.call_id
        where = f"call {encoded.call_id}"
    if error is not None:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return RowRefused(f"{where}: the database refuses {', '.join(encoded.events)}: {said}", **facts)
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

    def send(self, group: Sequence[tuple[Right, Encoded]]) -> list[Verdict]:
        """The verdict on each member, in order.

        Raises:
            StoreUnavailable: no answer within the time to give up; what was sent may have been stored.
            psycopg2.Error: the database refuses the content of a member; nothing was stored.
        """
        parameters = _parameters(self._host, group)
        started = time.monotonic()
        pause = _PAUSE_SECONDS
        repeated = False
        while True:
            try:
                if self._connection is None:
                    self._connection = self._database.connect_raw()
                with self._connection.cursor() as cursor:
                    cursor.execute(APPEND, parameters)
                    answers = cursor.fetchall()
                    return [
                        self._verdict(cursor, *item, answer, repeated)
                        for item, answer in zip(group, answers, strict=True)
                    ]
            except psycopg2.Error as error:
                if not is_retryable(error):
                    raise
                if is_lost(error):
                    repeated = True
                    self._drop_connection()
                if time.monotonic() + pause - started > self._give_up_seconds:
                    raise self._unavailable(error) from error
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)

    def _unavailable(self, error: psycopg2.Error) -> StoreUnavailable:
        return self._database.unavailable(error)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg2.Error):
                self._connection.close()
            self._connection = None

    def _verdict(self, cursor: Any, right: Right, encoded: Encoded, answer: tuple[Any, ...], repeated: bool) -> Verdict:
        _, status, count, seqs, queues = answer
        if status == "stored" and not repeated:
            # Nobody repeated anything: somebody else wrote under this right.
            return Verdict("lost", count, (), {})
        if status == "stored":
            return Verdict(status, count, self._stored(cursor, right, encoded, count), {})
        return Verdict(status, count or 0, tuple(seqs or ()), queues or {})

    def _stored(self, cursor: Any, right: Right, encoded: Encoded, count: int) -> tuple[int, ...]:
        first = right.rows_written + encoded.head["before"]
        if isinstance(right, Claim):
            cursor.execute(STORED_BY_CLAIM, {"call": right.call_id, "fence": right.fence})
            seqs = [row[0] for row in cursor.fetchall()]
        else:
            cursor.execute(STORED_BY_LEASE, {"run": right.run_id, "limit": count - right.rows_written})
            seqs = [row[0] for row in reversed(cursor.fetchall())]
            first -= right.rows_written
        return tuple(seqs[first : first + encoded.head["n"]])


def _parameters(host: str | None, group: Sequence[tuple[Right, Encoded]]) -> dict[str, Any]:
    before: Counter[int] = Counter()
    calls: set[str] = set()
    uses, runs, withdraw, finish = set[str](), set[str](), set[str](), set[str]()
    members: list[dict[str, Any]] = []
    opens: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    results: list[Any] = []
    for number, (right, encoded) in enumerate(group):
        head = encoded.head
        head |= {"m": number, "run": encoded.run_id, "wrote": right.rows_written, "before": before[id(right)]}
        before[id(right)] += head["n"]
        if isinstance(right, Claim):
            head |= {"call": right.call_id, "fence": right.fence}
            if head["sends"] and right.node_id is not None and not right.sent:
                uses.add(right.call_id)
        else:
            head |= {"scheduler": right.scheduler_id, "epoch": right.epoch}
            if head["withdraw"]:
                withdraw.add(right.run_id)
            if head["finish"]:
                finish.add(right.run_id)
        calls.update(encoded.touched)
        runs.add(encoded.run_id)
        members.append(head)
        offset = len(results)
        for row in encoded.rows:
            rows.append({**row, "m": number, "res": row["res"] + offset} if "res" in row else {**row, "m": number})
        results.extend(psycopg2.Binary(result) for result in encoded.results)
        opens.extend({**opened, "m": number} for opened in encoded.opens)
    return {
        "host": host, "writer": WRITER, "calls": list(calls), "uses": list(uses), "runs": list(runs),
        "withdraw": list(withdraw), "finish": list(finish), "members": _json(members), "opens": _json(opens),
        "rows": _json(rows), "results": results,
    }  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))

"""Store a run whose journal begins with rows of another: same places and results, ids of its own.

Call ids are digests of run, path and position, so the copied calls have others, and so
have their requests and their refs on the hub; whatever names one of them in a row is
renamed with it. A copied `placed` row names no host: the worktree it tells of is another
run's. Threads keep their names: a conversation goes on as a fork of the other's.
Source: design of the farm, "Room to leave"; rules of the protocol, 16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, select

from shared.base import ids
from shared.base.canonical import from_storable, storable
from shared.base.errors import UsageError
from shared.base.ids import RunId
from shared.journal.database import Database, retrying
from shared.journal.meta import WRITER
from shared.journal.queries import forking
from shared.journal.removals import lock_against_removal
from shared.journal.submit import Submitted
from shared.journal.tables import flow_calls, flow_events
from shared.model.rows import CallRow, Row

NOWHERE = "-"
"""The host of a copied worktree: no host has this name."""
_OF_WORKTREES = frozenset({"placed", "worktree_restored", "worktree_preserved"})
# A script's and a model's own words are never renamed.
_VERBATIM = frozenset({"prompt", "schema", "arguments"})
_REFS = "refs/crw/flow/"
_PAGE_ROWS = 500


@dataclass(frozen=True)
class Renaming:
    """Old name -> new name of calls and requests. Shape: `old` and `new` are the runs."""

    old: str
    new: RunId
    names: Mapping[str, str]

    @classmethod
    def plan(cls, old: str, new: RunId, rows: Sequence[Row]) -> Renaming:
        """The new names of all calls in these rows, and of their requests."""
        names: dict[str, str] = {}
        for row in (row for row in rows if isinstance(row, CallRow)):
            call = names.setdefault(row.call_id, ids.call_id(new, row.path, row.position))
            for ended in range(row.attempt + 1):
                names[ids.request_id(old, row.call_id, ended)] = ids.request_id(new, call, ended)
        return cls(old, new, names)

    def ref(self, name: str) -> str:
        """The new name of a ref of the old run."""
        tail = name.removeprefix(f"{_REFS}{self.old}/")
        return f"{_REFS}{self.new}/" + "/".join(self.names.get(part, part) for part in tail.split("/"))

    def value(self, value: Any) -> Any:
        """A JSON value with every name in it renamed."""
        if isinstance(value, dict):
            return {key: item if key in _VERBATIM else self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, str):
            return self.ref(value) if value.startswith(f"{_REFS}{self.old}/") else self.names.get(value, value)
        return value


def fork(
    database: Database, renaming: Renaming, rows: Sequence[Row], key: str, at: str, why: Mapping[str, Any],
    *, cleaned_at: datetime | None,
) -> Submitted:  # fmt: skip
    """Store the new run with these rows at its beginning, behind one that says where they come from.

    Args:
        at: where the other run was cut, as people write it.
        why: more of the first row.
        cleaned_at: when the other run was cleaned last, as it was known before its rows were judged.

    Raises:
        UsageError: the key belongs to a run that is not this very fork; or what the other run left is being removed,
            or was since it was judged.
    """
    data = {"run": renaming.old, "at": at, "rows": len(rows), **why}

    def store() -> Submitted:
        with database.transaction() as connection:
            values = {"new": renaming.new, "old": renaming.old, "key": key, "next_seq": len(rows) + 2}
            if connection.execute(forking.forked_run(), values).first() is None:
                return _same(connection.execute(forking.run_of_key(), {"key": key}).one(), renaming.old, key, at)
            connection.execute(forking.forked_spec(), values)
            calls = list(dict.fromkeys(row.call_id for row in rows if isinstance(row, CallRow)))
            newest = {row.call_id: row for row in rows if isinstance(row, CallRow)}
            claims = {
                "new": renaming.new, "calls": calls, "new_calls": [renaming.names[call] for call in calls],
                "requests": [renaming.names[newest[call].request_id] for call in calls],
                "attempts": [newest[call].attempt for call in calls],
            }  # fmt: skip
            connection.execute(forking.forked_claims(), claims)
            seqs = {row.seq: number for number, row in enumerate(rows, 2)}
            for table, copy in ((flow_calls, _call), (flow_events, _event)):
                for page in _pages(connection, table, renaming.old):
                    copied = [copy(row, renaming, seqs[row["seq"]]) for row in page if row["seq"] in seqs]
                    if copied:
                        connection.execute(table.insert(), copied)
            payload = {"new": renaming.new, "writer": WRITER, "payload": storable(data)}
            connection.execute(forking.forked_row(), payload)
            # Last: who appends to the other run, which may be driven, waits for the commit and not for the copies.
            _check_kept(connection, renaming.old, cleaned_at)
        return Submitted(renaming.new, True)

    return retrying(store)


def _check_kept(connection: Connection, run: str, cleaned_at: datetime | None) -> None:
    """Refuse a run that is not as it was judged, and hold it so until the fork stands: no removal begins before."""
    for cleaner in lock_against_removal(connection, run):
        raise UsageError(cleaner.sentence())
    if connection.execute(forking.cleaned_at(), {"run": run}).scalar() != cleaned_at:
        raise UsageError(f"what run {run} left was removed while it was looked at; give the command again")


def _pages(connection: Connection, table: Table, run: str) -> Iterator[list[dict[str, Any]]]:
    """A run's rows of a table by seq, some at a time: the server waits for no more, and no more is held at once."""
    page = select(table).where(table.c.run_id == run).order_by(table.c.seq).limit(_PAGE_ROWS)
    after = 0
    while rows := [dict(row) for row in connection.execute(page.where(table.c.seq > after)).mappings()]:
        yield rows
        after = rows[-1]["seq"]


def fork_of_key(database: Database, old: str, key: str, at: str) -> Submitted | None:
    """The fork that a key has already; None when it is free.

    Raises:
        UsageError: the key belongs to another run.
    """

    def read() -> Submitted | None:
        with database.statement() as connection:
            there = connection.execute(forking.run_of_key(), {"key": key}).first()
        return None if there is None else _same(there, old, key, at)

    return retrying(read)


def _call(row: dict[str, Any], renaming: Renaming, seq: int) -> dict[str, Any]:
    detail = renaming.value(from_storable(row["detail_json"]))
    host = row["host"]
    if row["event"] in _OF_WORKTREES:
        detail, host = {**detail, "host": NOWHERE, "copied_from": {"run": renaming.old, "host": host}}, NOWHERE
    names = {name: renaming.names[row[name]] for name in ("call_id", "request_id")}
    return {**row, **names, "run_id": renaming.new, "seq": seq, "host": host, "detail_json": storable(detail)}


def _event(row: dict[str, Any], renaming: Renaming, seq: int) -> dict[str, Any]:
    payload = storable(renaming.value(from_storable(row["payload_json"])))
    return {**row, "run_id": renaming.new, "seq": seq, "payload_json": payload}


def _same(there: Any, old: str, key: str, at: str) -> Submitted:
    """The run that has the key, when it is this very fork."""
    forked = from_storable(there.forked) if there.forked is not None else {}
    if there.resumes_run != old or forked.get("at") != at:
        raise UsageError(
            f"the key {key} belongs to run {there.run_id}, which is no fork of run {old} at {at}; use another key"
        )
    return Submitted(RunId(there.run_id), False)

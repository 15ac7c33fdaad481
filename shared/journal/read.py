"""Read a run back: the same rows, in the same order, with the same numbers as they were appended.

A watcher keeps the seq of the last row it was given and asks for the rows after it.
A page is one statement over both tables and ends at the first gap, so a cursor
never passes a row that is not visible yet and gets none twice.
Source: journal document, "Reading a run"; rules of the protocol 17, 48.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from shared.base.canonical import from_storable
from shared.journal.database import Database, retrying
from shared.journal.queries import reading
from shared.journal.results import load_result
from shared.model.rows import CallRow, EventRow, Row

__all__ = [
    "Page",
    "load",
    "load_after",
    "load_call",
    "load_effects",
    "load_lean",
    "load_node",
    "load_own_directories",
    "load_results",
]

_PAGE_ROWS = 1000

Values = tuple[Any, ...]


@dataclass(frozen=True)
class Page:
    """Rows after a cursor. `more`: another row exists beyond them."""

    rows: list[Row]
    more: bool


def load(database: Database, run_id: str) -> list[Row]:
    """The whole run with the results of its calls."""
    return _load(database, run_id, with_results=True)


def load_lean(database: Database, run_id: str) -> list[Row]:
    """The whole run without results."""
    return _load(database, run_id, with_results=False)


def load_results(database: Database, run_id: str, seqs: Sequence[int]) -> dict[int, bytes]:
    """Seq -> result, of some rows of a run."""
    found = retrying(lambda: database.fetch(reading.RESULTS, {"run": run_id, "seqs": list(seqs)}))
    whole = {seq: load_result(database, ref) if ref is not None else result for seq, result, ref in found}
    return {seq: bytes(result) for seq, result in whole.items() if result is not None}


def _load(database: Database, run_id: str, *, with_results: bool) -> list[Row]:
    rows: list[Row] = []
    more = True
    while more:
        page = load_after(database, run_id, rows[-1].seq if rows else 0, results=with_results)
        rows += page.rows
        more = page.more
    return rows


def load_after(database: Database, run_id: str, after: int, limit: int = _PAGE_ROWS, *, results: bool = False) -> Page:
    """One page of the rows after a seq (0: from the start); lean unless `results` are asked for."""
    asked = {"run": run_id, "after": after, "limit": limit + 1, "results": results}
    found = _fetch(database, reading.PAGE, asked)
    dense = [row for number, row in enumerate(found, after + 1) if row[_SEQ] == number]
    return Page([make_row(row) for row in dense[:limit]], len(dense) > limit)


def load_call(database: Database, call_id: str) -> list[CallRow]:
    """All rows of a call with its results, in order: what `replay.read_call_result` reads."""
    return [_call_row(row) for row in _fetch(database, reading.CALL_ROWS, {"call": call_id})]


def load_node(database: Database, run_id: str, node_id: str) -> list[CallRow]:
    """A node's placed and worktree_restored rows, and the terminal rows of its executor calls and commits; lean."""
    return [_call_row(row) for row in _fetch(database, reading.NODE_ROWS, {"run": run_id, "node": node_id})]


def load_effects(database: Database, run_id: str, after: int = 0) -> list[CallRow]:
    """What the proofs of a run need of its rows behind a seq, lean, in order; prepared rows come without their detail.

    These are the executor calls and commits of all nodes (placed, hold_cleared, terminal, and prepared where it begins
    another attempt or one that is open), the terminal rows of integrations and the held rows of other agents.
    """
    return [_call_row(row) for row in _fetch(database, reading.EFFECT_ROWS, {"run": run_id, "after": after})]


def load_own_directories(database: Database, run_id: str) -> list[tuple[str, str]]:
    """`(call id, path)` of every directory that a terminal row of the run names as its call's own."""
    rows = retrying(lambda: database.fetch(reading.OWN_DIRECTORIES, {"run": run_id}))
    named = [(str(call), from_storable(detail).get("own_directory")) for call, detail in rows]
    return [(call, str(path)) for call, path in named if path]


_SEQ = 2 + reading.COLUMNS.index("seq")
_DETAIL, _RESULT, _REF = -3, -2, -1


def _fetch(database: Database, statement: str, asked: Mapping[str, Any]) -> list[Values]:
    rows = retrying(lambda: database.fetch(statement, asked))
    return [row if row[_REF] is None else (*row[:_RESULT], load_result(database, row[_REF]), None) for row in rows]


def make_row(row: Values) -> Row:
    """The row of a page's values."""
    return _event_row(row) if row[0] else _call_row(row)


def _call_row(row: Values) -> CallRow:
    return make_call_row(row, from_storable(row[_DETAIL]))


def make_call_row(row: Values, detail: dict[str, Any]) -> CallRow:
    """The row of a call of a page's values, with its data from elsewhere."""
    result = row[_RESULT]
    # The columns of every page stand in the order of the row's members.
    made = CallRow(*(*row[2:_DETAIL], detail, None if result is None else bytes(result)))
    # The exact label stands in the data; the column is for readers that do not open it.
    return replace(made, label=detail.pop("_label")) if "_label" in detail else made


def _event_row(row: Values) -> EventRow:
    values = dict(zip(reading.COLUMNS, row[2:_DETAIL], strict=True))
    data = from_storable(row[_DETAIL])
    reserved = {name: data.pop(name) for name in tuple(data) if name.startswith("_")}
    return EventRow(
        run_id=values["run_id"],
        seq=values["seq"],
        kind=values["kind"],
        path=reserved.get("_path"),
        position=reserved.get("_position"),
        op=reserved.get("_op"),
        label=reserved.get("_label"),
        written_at=values["written_at"],
        data=data,
    )

"""Read a run back: the same rows, in the same order, with the same numbers as they were appended.

A watcher keeps the seq of the last row it was given and asks for the rows after it.
A page is one statement over both tables and ends at the first gap, so a cursor
never passes a row that is not visible yet and gets none twice.
Source: journal document, "Reading a run"; rules of the protocol 17, 48.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.base.canonical import from_storable
from shared.base.frozen import make_frozen
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
    "load_slim",
]

_PAGE_ROWS = 1000
_DETAILS_AT_ONCE = 8
# As long as what is said of a member that differs: a longer text is compared and shown by its digest.
SHORT_PROMPT_CHARACTERS = 80


Values = tuple[Any, ...]
Make = Callable[[Sequence[Values]], "list[Row]"]


@dataclass(frozen=True)
class Page:
    """Rows after a cursor. `more`: another row exists beyond them."""

    rows: list[Row]
    more: bool


def load(database: Database, run_id: str) -> list[Row]:
    """The whole run with the results of its calls."""
    return _load(database, run_id, reading.PAGE, with_results=True)


def load_lean(database: Database, run_id: str) -> list[Row]:
    """The whole run without results."""
    return _load(database, run_id, reading.PAGE, with_results=False)


def load_slim(database: Database, run_id: str) -> list[Row]:
    """The whole run with the results that are small. `result_bytes` says where another is, for `load_results`.

    A `prepared` row has its prompt only where that is a few words; a longer one is known by its `prompt_digest`.
    """

    def make(found: Sequence[Values]) -> list[Row]:
        large = [row[_SEQ] for row in found if row[_DETAIL] is None]
        details = _without_prompts(database, run_id, large) if large else {}
        rows = [_row(row) if row[_DETAIL] is not None else _call_row(row, details[row[_SEQ]]) for row in found]
        for row in rows:
            if isinstance(row, CallRow) and row.event == "prepared":
                _drop_prompt(row.detail)
        return rows

    return _load(database, run_id, reading.PAGE_SLIM, with_results=True, make=make)


def _without_prompts(database: Database, run_id: str, seqs: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The data of some rows by their seq, a few read at once: what is held of them is what is kept."""
    kept: dict[int, dict[str, Any]] = {}
    for first in range(0, len(seqs), _DETAILS_AT_ONCE):
        asked = {"run": run_id, "seqs": seqs[first : first + _DETAILS_AT_ONCE]}
        for seq, stored in retrying(lambda asked=asked: database.fetch(reading.DETAILS, asked)):  # type: ignore[misc]
            kept[seq] = from_storable(stored)
            _drop_prompt(kept[seq])
    return kept


def _drop_prompt(detail: Any) -> None:
    if len(detail.get("prompt") or "") > SHORT_PROMPT_CHARACTERS and "prompt_digest" in detail:
        del detail["prompt"]


def load_results(database: Database, run_id: str, seqs: Sequence[int]) -> dict[int, bytes]:
    """Seq -> result, of some rows of a run."""
    found = retrying(lambda: database.fetch(reading.RESULTS, {"run": run_id, "seqs": list(seqs)}))
    whole = {seq: load_result(database, ref) if ref is not None else result for seq, result, ref in found}
    return {seq: bytes(result) for seq, result in whole.items() if result is not None}


def _load(
    database: Database, run_id: str, statement: str, *, with_results: bool, make: Make | None = None
) -> list[Row]:
    rows: list[Row] = []
    more = True
    while more:
        after = rows[-1].seq if rows else 0
        page = _page(database, run_id, after, _PAGE_ROWS, statement, with_results=with_results, make=make)
        rows += page.rows
        more = page.more
    return rows


def load_after(database: Database, run_id: str, after: int, limit: int = _PAGE_ROWS, *, results: bool = False) -> Page:
    """One page of the rows after a seq (0: from the start); lean unless `results` are asked for."""
    return _page(database, run_id, after, limit, reading.PAGE, with_results=results)


def _page(
    database: Database, run_id: str, after: int, limit: int, statement: str, *, with_results: bool,
    make: Make | None = None,
) -> Page:  # fmt: skip
    asked = {"run": run_id, "after": after, "limit": limit + 1, "results": with_results}
    found = _fetch(database, statement, asked)
    dense = [row for number, row in enumerate(found, after + 1) if row[_SEQ] == number]
    return Page((make or _rows)(dense[:limit]), len(dense) > limit)


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


def _rows(found: Sequence[Values]) -> list[Row]:
    return [_row(row) for row in found]


def _row(row: Values) -> Row:
    return _event_row(row) if row[0] else _call_row(row)


def _call_row(row: Values, detail: dict[str, Any] | None = None) -> CallRow:
    if detail is None:
        detail = from_storable(row[_DETAIL])
    assert detail is not None
    values = dict(zip(reading.COLUMNS, row[2:_DETAIL], strict=True))
    # The exact label stands in the data; the column is for readers that do not open it.
    values["label"] = detail.pop("_label", values["label"])
    values["detail"] = detail
    values["result"] = None if row[_RESULT] is None else bytes(row[_RESULT])
    return make_frozen(CallRow, values)


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

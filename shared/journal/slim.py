"""A run as a resume reads it: what its decisions rest on, and no more.

Left out are results that are not small, long prompts, and what was only seen on the way
to an end that says it all.
Source: journal document, "The resume walk"; rules of the protocol, 17 and 41.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.base.canonical import from_storable
from shared.journal.database import Database, retrying
from shared.journal.queries import reading
from shared.journal.read import Values, make_call_row, make_row
from shared.model.rows import CallRow, Row

_PAGE_ROWS = 1000
_DETAILS_AT_ONCE = 8
# As long as what is said of a member that differs: a longer text is compared and shown by its digest.
SHORT_PROMPT_CHARACTERS = 80
_SEQ, _DETAIL = 2 + reading.COLUMNS.index("seq"), -3


def load_slim(database: Database, run_id: str) -> list[Row]:
    """The run up to its first gap, with the results that are small and without what nobody decides on.

    `result_bytes` says where another result is, for `load_results`. A `prepared` row has its prompt only where that
    is a few words; a longer one is known by its `prompt_digest`. Rows between the intent and the end of an attempt
    that completed are left out where its end has all that they say, see `reading.PAGE_SLIM`.
    """
    rows: list[Row] = []
    after, full = 0, True
    while full:
        asked = {"run": run_id, "after": after, "limit": _PAGE_ROWS}
        found = retrying(lambda asked=asked: database.fetch(reading.PAGE_SLIM, asked))  # type: ignore[misc]
        after += _PAGE_ROWS
        # A page that is full ends with its last row, also where that one could be left out.
        full = bool(found) and found[-1][_SEQ] == after
        rows += _make(database, run_id, found)
    return rows


def _make(database: Database, run_id: str, found: Sequence[Values]) -> list[Row]:
    large = [row[_SEQ] for row in found if row[_DETAIL] is None]
    details = _without_prompts(database, run_id, large) if large else {}
    rows = [make_row(row) if row[_DETAIL] is not None else make_call_row(row, details[row[_SEQ]]) for row in found]
    for row in rows:
        if isinstance(row, CallRow) and row.event == "prepared":
            _drop_prompt(row.detail)
    return rows


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

"""A member as plain data for `crw_append`: checked, sized and stored forms made in the caller's thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.base.canonical import canonical_bytes, digest_bytes, parse, storable
from shared.base.errors import RowRefused
from shared.journal.composites import composite
from shared.journal.members import CallRows, Claim, EndedCall, Member, OpenCall, RunRows
from shared.model.events import INTENT_WORDS, SENDING_WORDS, TERMINAL_WORDS, RowClass, row_kind
from shared.model.rows import NewCallRow, NewEventRow

RESULT_INLINE_BYTES = 64 * 1024
RESULT_LIMIT_BYTES = 64 * 1024 * 1024
_CALL_CLASSES = (RowClass.INTENT, RowClass.TERMINAL, RowClass.OBSERVATION)
_PLAIN_TEXT = (
    "role", "label", "commit_sha", "thread_id", "turn_id", "operation", "worktree_kind", "worktree_path", 
    "start_commit", "pending_tree", "held_tree", "snapshot_digest", "input_state",
)  # fmt: skip
_NUMBERS = ("allocation", "tokens")


@dataclass
class Encoded:
    """A member ready for a group.

    Shape: `rows`, `events` and `opens` are what is inserted, as plain data; `texts` (of
    the events, then the rows) and `open_texts` are the same as composites, their numbers
    within a group still missing; `results` the answers small enough to stand in their
    row, with that row; `large` those that lie in a table by digest;
    `touched` the calls, beside the claim's own, whose state must hold (with the
    attempt that must be newer than any, for an open), of which `takes_open` may be open;
    `before` and `start` are set by the group.
    """

    run_id: str
    call_id: str | None
    words: tuple[str, ...] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    opens: list[dict[str, Any]] = field(default_factory=list)
    results: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)
    large: dict[str, bytes] = field(default_factory=dict)
    touched: dict[str, int | None] = field(default_factory=dict)
    takes_open: set[str] = field(default_factory=set)
    intent: bool = False
    turns: int = 0
    terminal: bool = False
    sends: bool = False
    withdraw: bool = False
    finish: bool = False
    progress: bool = False
    weight_bytes: int = 0
    before: int = 0
    start: int = 0
    texts: list[str] = field(default_factory=list)
    open_texts: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many rows it is."""
        return len(self.rows) + len(self.events)


def encode(member: Member) -> Encoded:
    """The stored form of a member.

    Raises:
        RowRefused: a row is none the journal can store; the sentence names it.
    """
    made = _encode_call(member) if isinstance(member, CallRows) else _encode_run(member)
    made.texts = [composite("crw_event_row", row) for row in made.events]
    made.texts += [composite("crw_call_row", row) for row in made.rows]
    made.open_texts = [composite("crw_open_part", opened) for opened in made.opens]
    made.weight_bytes = sum(len(row["detail"]) + 400 for row in (*made.rows, *made.events))
    made.weight_bytes += sum(len(result) for _, result in made.results)
    return made


def _encode_call(member: CallRows) -> Encoded:
    claim = member.claim
    words = tuple(row.event for row in member.rows)
    if any(word in TERMINAL_WORDS for word in words[:-1]):
        raise RowRefused(f"call {claim.call_id}: a terminal row is not the last of {', '.join(words)}")
    made = Encoded(claim.run_id, claim.call_id, words)
    for row in member.rows:
        _add_call_row(made, claim, row, {"fence": claim.fence, "role": claim.role, "label": claim.label})
    made.intent = any(row.event in INTENT_WORDS and not _passes_stop(row) for row in member.rows)
    made.turns = words.count("turn_requested")
    made.terminal = made.progress = bool(words) and words[-1] in TERMINAL_WORDS
    made.sends = any(word in SENDING_WORDS for word in words)
    return made


def _passes_stop(row: NewCallRow) -> bool:
    """Whether an intent commits although the run is stopping: it ends a turn, or it keeps what an agent wrote.

    A push without a guard moves the run's own refs alone; refused, the work would be on one machine only.
    """
    return row.event == "interrupt_requested" or (row.event == "push_requested" and "guard" not in row.detail)


def _encode_run(member: RunRows) -> Encoded:
    made = Encoded(member.lease.run_id, None)
    for event in member.events:
        made.events.append(_event_row(made.run_id, event))
    for ended in member.ended:
        row = _add_call_row(made, ended, ended.row, {})
        made.touched[ended.call_id] = None
        if ended.takes_open:
            row["takes"] = True
            made.takes_open.add(ended.call_id)
    for opening in member.opens:
        row = _add_call_row(made, opening, opening.prepared, {})
        made.touched[opening.call_id] = opening.attempt
        made.opens.append({
            **_place(opening), "run": made.run_id, "effect": opening.effect, "pin": opening.pin_host,
            "role": row.get("role"), "label": row.get("label"), "deadline": opening.deadline_seconds,
            "held": opening.held,
        })  # fmt: skip
    # `withdrawn` rows are written by the database itself.
    withdrawn = ("withdrawn",) if member.withdraw else ()
    made.words = (*withdrawn, *(row["event"] for row in (*made.events, *made.rows)))
    made.intent = member.intent or bool(member.opens)
    made.withdraw = member.withdraw
    made.finish = member.finish
    made.progress = member.progress or any(row["terminal"] for row in made.rows)
    return made


def _place(call: Claim | OpenCall | EndedCall) -> dict[str, Any]:
    return {
        "call": call.call_id, "path": call.path, "position": call.position, "kind": call.kind,
        "node": call.node_id, "request": call.request_id, "attempt": call.attempt,
    }  # fmt: skip


def _add_call_row(
    made: Encoded, call: Claim | OpenCall | EndedCall, row: NewCallRow, facts: dict[str, Any]
) -> dict[str, Any]:
    if _class_of(row.event) not in _CALL_CLASSES:
        raise RowRefused(f"{row.event} is no row of a call")
    data = {**_place(call), **facts, "run": made.run_id, "event": row.event, "terminal": row.event in TERMINAL_WORDS}
    data["detail"] = _detail(row.event, row.detail, {} if row.label is None else {"_label": row.label})
    for name in _PLAIN_TEXT:
        value = getattr(row, name)
        if value is not None:
            data[name] = plain(value)
    for name in _NUMBERS:
        value = getattr(row, name)
        if value is not None:
            data[name] = value
    if row.result is not None:
        _add_result(made, data, row.result)
    made.rows.append(data)
    return data


def _event_row(run_id: str, row: NewEventRow) -> dict[str, Any]:
    if _class_of(row.kind) in _CALL_CLASSES and not row_kind(row.kind).of_flow:
        raise RowRefused(f"{row.kind} is a row of a call")
    reserved = {
        "_kind": row.kind, "_path": row.path, "_position": row.position, "_op": row.op, "_label": row.label,
    }  # fmt: skip
    return {
        "run": run_id, "event": row.kind, "path": plain(row.path), "position": row.position, "op": plain(row.op),
        "label": plain(row.label),
        "detail": _detail(row.kind, row.data, {name: value for name, value in reserved.items() if value is not None}),
    }  # fmt: skip


def _class_of(word: str) -> RowClass:
    try:
        return row_kind(word).row_class
    except KeyError:
        raise RowRefused(f"{word} is no kind of row that this program knows") from None


def _detail(word: str, data: Mapping[str, Any], reserved: dict[str, Any]) -> str:
    for name in data:
        if name.startswith("_"):
            raise RowRefused(f"{word}: the member {name!r} starts with an underscore; such names are the journal's own")
    try:
        stored = storable({**data, **reserved})
    except (TypeError, ValueError, RecursionError) as error:
        raise RowRefused(f"{word}: its data is not JSON ({error})") from None
    if len(stored) > RESULT_LIMIT_BYTES:
        raise RowRefused(f"{word}: its data has {len(stored)} bytes, more than the {RESULT_LIMIT_BYTES} of a row")
    return stored


def _add_result(made: Encoded, data: dict[str, Any], result: bytes) -> None:
    if len(result) > RESULT_LIMIT_BYTES:
        raise RowRefused(
            f"the result has {len(result)} bytes, more than the {RESULT_LIMIT_BYTES} the journal takes",
            size=len(result),
        )
    data["result_bytes"] = len(result)
    data["result_digest"] = result_digest(result)
    if len(result) > RESULT_INLINE_BYTES:
        data["result_ref"] = digest_bytes(result)
        made.large[data["result_ref"]] = result
    else:
        made.results.append((data, result))


def result_digest(result: bytes) -> str:
    """sha-256 of a result's canonical form; of the bytes themselves where they have none."""
    try:
        return digest_bytes(canonical_bytes(parse(result)))
    except ValueError:
        return digest_bytes(result)


def plain(value: str | None) -> str | None:
    """A text as a `text` column can hold it: NUL and lone surrogates replaced. The exact one stands in `detail`."""
    if value is None or (value.isascii() and "\x00" not in value):
        return value
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")

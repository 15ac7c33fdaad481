"""A member as plain data for `crw_append`: checked, sized and stored forms made in the caller's thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.base.canonical import canonical_bytes, digest_bytes, parse, storable
from shared.base.errors import RowRefused
from shared.journal.members import CallRows, EndedCall, Member, OpenCall, RunRows
from shared.model.events import INTENT_WORDS, SENDING_WORDS, TERMINAL_WORDS, RowClass, row_kind
from shared.model.rows import NewCallRow, NewEventRow

RESULT_INLINE_BYTES = 64 * 1024
RESULT_LIMIT_BYTES = 64 * 1024 * 1024
_CALL_CLASSES = (RowClass.INTENT, RowClass.TERMINAL, RowClass.OBSERVATION)
# Passes although the run is stopping: it is how a stopping run's turn comes to its end.
_PASSES_STOP = "interrupt_requested"
_PLAIN_TEXT = (
    "commit_sha", "thread_id", "turn_id", "operation", "worktree_kind", "worktree_path", "start_commit",
    "pending_tree", "held_tree", "snapshot_digest", "input_state",
)  # fmt: skip
_NUMBERS = ("allocation", "tokens")


@dataclass
class Encoded:
    """A member ready for a group.

    Shape: `head` the member's own facts; `rows` and `opens` plain data without
    their member number; `results` the answers small enough to stand in their row
    (a row's `res` counts them from 1); `large` those that lie in a table by digest.
    """

    run_id: str
    call_id: str | None
    head: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    opens: list[dict[str, Any]] = field(default_factory=list)
    results: list[bytes] = field(default_factory=list)
    large: dict[str, bytes] = field(default_factory=dict)
    weight_bytes: int = 0
    touched: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


def encode(member: Member) -> Encoded:
    """The stored form of a member.

    Raises:
        RowRefused: a row is none the journal can store; the sentence names it.
    """
    return _encode_call(member) if isinstance(member, CallRows) else _encode_run(member)


def _encode_call(member: CallRows) -> Encoded:
    claim = member.claim
    words = [row.event for row in member.rows]
    if any(word in TERMINAL_WORDS for word in words[:-1]):
        raise RowRefused(f"call {claim.call_id}: a terminal row is not the last of {', '.join(words)}")
    made = Encoded(claim.run_id, claim.call_id, {}, touched=(claim.call_id,), events=tuple(words))
    for row in member.rows:
        _add_row(made, _call_row(row, made))
    made.head = {
        "n": len(words),
        "intent": any(word in INTENT_WORDS and word != _PASSES_STOP for word in words),
        "turns": words.count("turn_requested"),
        "terminal": bool(words) and words[-1] in TERMINAL_WORDS,
        "sends": any(word in SENDING_WORDS for word in words),
        "progress": bool(words) and words[-1] in TERMINAL_WORDS,
    }
    return made


def _encode_run(member: RunRows) -> Encoded:
    lease = member.lease
    made = Encoded(lease.run_id, None, {})
    for event in member.events:
        _add_row(made, _event_row(event))
    for ended in member.ended:
        _add_row(made, {**_call_row(ended.row, made), **_place(ended)})
    for opening in member.opens:
        _add_row(made, {**_call_row(opening.prepared, made), **_place(opening)})
        made.opens.append({
            **_place(opening), "run": lease.run_id, "effect": opening.effect, "pin": opening.pin_host,
            "role": plain(opening.prepared.role), "label": plain(opening.prepared.label),
            "deadline": opening.deadline_seconds,
        })  # fmt: skip
    places: list[OpenCall | EndedCall] = [*member.ended, *member.opens]
    made.touched = tuple(call.call_id for call in places)
    made.events = tuple(row["event"] for row in made.rows)
    made.head = {
        "n": len(made.rows), "intent": member.intent or bool(member.opens), "turns": 0, "terminal": False,
        "sends": False, "withdraw": member.withdraw, "finish": member.finish,
        "progress": member.progress or any(row["terminal"] for row in made.rows),
    }  # fmt: skip
    return made


def _add_row(made: Encoded, row: dict[str, Any]) -> None:
    row["ord"] = len(made.rows)
    made.rows.append(row)
    made.weight_bytes += len(row["detail"]) + 200


def _place(call: OpenCall | EndedCall) -> dict[str, Any]:
    return {
        "call": call.call_id, "path": call.path, "position": call.position, "kind": call.kind,
        "node": call.node_id, "request": call.request_id, "attempt": call.attempt,
    }  # fmt: skip


def _call_row(row: NewCallRow, made: Encoded) -> dict[str, Any]:
    if row_kind(row.event).row_class not in _CALL_CLASSES:
        raise RowRefused(f"{row.event} is no row of a call")
    data: dict[str, Any] = {
        "is_event": False,
        "event": row.event,
        "terminal": row.event in TERMINAL_WORDS,
        "detail": _detail(row.event, row.detail, {} if row.label is None else {"_label": row.label}),
    }
    if row.role is not None:
        data["role"] = plain(row.role)
    if row.label is not None:
        data["label"] = plain(row.label)
    for name in _PLAIN_TEXT:
        value = getattr(row, name)
        if value is not None:
            data[name] = plain(value)
    for name in _NUMBERS:
        value = getattr(row, name)
        if value is not None:
            data[name] = value
    if row.result is not None:
        data |= _result(row.result, made)
    return data


def _event_row(row: NewEventRow) -> dict[str, Any]:
    if row_kind(row.kind).row_class in _CALL_CLASSES:
        raise RowRefused(f"{row.kind} is a row of a call")
    reserved = {
        "_kind": row.kind, "_path": row.path, "_position": row.position, "_op": row.op, "_label": row.label,
    }  # fmt: skip
    return {
        "is_event": True, "event": row.kind, "path": plain(row.path), "position": row.position, "op": plain(row.op),
        "label": plain(row.label), "terminal": False,
        "detail": _detail(row.kind, row.data, {name: value for name, value in reserved.items() if value is not None}),
    }  # fmt: skip


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


def _result(result: bytes, made: Encoded) -> dict[str, Any]:
    if len(result) > RESULT_LIMIT_BYTES:
        raise RowRefused(
            f"the result has {len(result)} bytes, more than the {RESULT_LIMIT_BYTES} the journal takes",
            size=len(result),
        )
    data: dict[str, Any] = {"result_bytes": len(result), "result_digest": result_digest(result)}
    if len(result) > RESULT_INLINE_BYTES:
        data["result_ref"] = digest_bytes(result)
        made.large[data["result_ref"]] = result
    else:
        made.results.append(result)
        made.weight_bytes += len(result)
        data["res"] = len(made.results)
    return data


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

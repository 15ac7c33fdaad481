"""One call on a screen: its facts, its rows and the transcript of its turns. Pure: rows and artifacts to text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.cli.output import clean, count, one_line
from scheduler.cli.render_run import status_words
from scheduler.cli.view import CallView
from shared.model.rows import CallRow

_OUTPUT_LINES = 40
_WORD_WIDTH = 100


def call_facts(call: CallView, rows: Sequence[CallRow]) -> list[tuple[str, str]]:
    """Names and values of everything the call's rows say about it."""
    newest = _newest(rows)
    prepared = next((row.detail for row in reversed(rows) if row.event == "prepared"), {})
    pair = prepared.get("pair")
    facts: list[tuple[str, str | None]] = [
        ("call", call.call_id),
        ("run", rows[-1].run_id),
        ("where", f"{call.path} position {call.position}"),
        ("kind", call.kind if call.kind != "agent" else f"agent, role {call.role}"),
        ("node", call.node),
        ("label", call.label),
        ("pair", " ".join(str(part) for part in pair) if isinstance(pair, (list, tuple)) else None),
        ("state", status_words(call)),
        ("host", call.host),
        ("thread", newest["thread_id"]),
        ("turns", str(call.turns) if call.turns else None),
        ("tokens", count(call.tokens) if call.tokens is not None else None),
        ("worktree", newest["worktree_path"]),
        ("start commit", newest["start_commit"]),
        ("pending tree", newest["pending_tree"]),
        ("held tree", newest["held_tree"]),
        ("commit", call.commit),
        ("result digest", newest["result_digest"]),
        ("request", rows[-1].request_id),
    ]
    return [(name, value) for name, value in facts if value]


def _newest(rows: Sequence[CallRow]) -> dict[str, str | None]:
    """For each plain column the newest value that a row has."""
    names = ("thread_id", "worktree_path", "start_commit", "pending_tree", "held_tree", "result_digest")
    return {name: next((v for row in reversed(rows) if (v := getattr(row, name))), None) for name in names}


def rows_lines(rows: Sequence[CallRow]) -> list[str]:
    """One line a row: number, time, word and what its detail says."""
    return [
        f"{row.seq:>6}  {row.written_at:%H:%M:%S}  {row.event:<17} {one_line(_detail_words(row.detail), _WORD_WIDTH)}"
        for row in rows
    ]


# These are shown in full elsewhere or are too long for a line.
_NOT_IN_LINE = frozenset({"prompt", "schema", "context", "options", "arguments", "snapshot"})


def _detail_words(detail: Mapping[str, Any]) -> str:
    words = []
    for name, value in detail.items():
        if name in _NOT_IN_LINE or value is None or name.startswith("_"):
            continue
        words.append(f"{name}={value if isinstance(value, str) else json.dumps(value, default=str)}")
    return " ".join(words)


def transcript_digests(rows: Iterable[CallRow]) -> list[tuple[str, str]]:
    """`(turn id, artifact digest)` of every turn whose end recorded a transcript, in order."""
    found = []
    for row in rows:
        digest = row.detail.get("transcript") if row.event == "turn_ended" else None
        if isinstance(digest, str):
            found.append((row.turn_id or str(row.detail.get("turn", "?")), digest))
    return found


def parse_transcript(data: bytes) -> list[dict[str, Any]] | None:
    """The items of a stored transcript: a JSON list, or an object with `items`; None when it is neither."""
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    items = value.get("items") if isinstance(value, dict) else value
    if not isinstance(items, list):
        return None
    return [item for item in items if isinstance(item, dict)]


def transcript_lines(items: Iterable[Mapping[str, Any]]) -> list[str]:
    """The items of a turn as a conversation; an item of an unknown type is named, never dropped."""
    lines: list[str] = []
    for item in items:
        lines += _item_lines(item)
    return lines


def _item_lines(item: Mapping[str, Any]) -> list[str]:
    kind = item.get("type")
    if kind == "userMessage":
        return _block("asked", _content_text(item.get("content")))
    if kind == "agentMessage":
        return _block("said" if item.get("phase") == "commentary" else "answered", str(item.get("text", "")))
    if kind == "reasoning":
        text = "\n".join(str(part) for part in item.get("summary") or [])
        return _block("thought", text) if text else []
    if kind == "commandExecution":
        status = item.get("exitCode")
        head = f"ran ({'not ended' if status is None else f'exit {status}'})"
        return _block(head, f"$ {item.get('command', '')}\n{_tail(str(item.get('aggregatedOutput') or ''))}".rstrip())
    if kind == "fileChange":
        names = [f"{_change_word(change)} {change.get('path')}" for change in item.get("changes") or []]
        return _block("edited", "\n".join(names))
    return _block(str(kind), one_line(json.dumps(item, default=str), 400))


def _change_word(change: Mapping[str, Any]) -> str:
    kind = change.get("kind")
    return str(kind.get("type") if isinstance(kind, dict) else kind or "update")


def _content_text(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [
        str(part.get("text") or f"[{part.get('type')}]") if isinstance(part, dict) else str(part) for part in parts
    ]
    return "\n".join(texts)


def _tail(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= _OUTPUT_LINES:
        return text
    return "\n".join([f"… {len(lines) - _OUTPUT_LINES} lines before", *lines[-_OUTPUT_LINES:]])


def _block(head: str, text: str) -> list[str]:
    return [f"{head}:", *(f"    {line}" for line in clean(text).splitlines()), ""]

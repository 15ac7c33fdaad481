"""One call on a screen: its facts, its rows and the transcript of its turns. Pure: rows and artifacts to text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.cli.output import clean, count, one_line, plain_command, time_of_day
from scheduler.cli.render_run import status_words
from scheduler.cli.view import CallView
from shared.model.outcome import Ended
from shared.model.rows import CallRow, Row
from shared.model.settlement import Settlement, read_settlement

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
        ("error", _error(rows)),
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


def _error(rows: Sequence[CallRow]) -> str | None:
    """What went wrong in the newest attempt, in the words of whoever saw it."""
    found = rows[-1].detail.get("error")
    return None if found is None else str(found)


def _newest(rows: Sequence[CallRow]) -> dict[str, str | None]:
    """For each plain column the newest value that a row has."""
    names = ("thread_id", "worktree_path", "start_commit", "pending_tree", "held_tree", "result_digest")
    return {name: next((v for row in reversed(rows) if (v := getattr(row, name))), None) for name in names}


def rows_lines(rows: Sequence[CallRow]) -> list[str]:
    """One line a row: number, time, word and what its detail says."""
    return [_row_line(row) for row in rows]


def _row_line(row: CallRow) -> str:
    words = one_line(_detail_words(row.detail), _WORD_WIDTH)
    return f"{row.seq:>6}  {time_of_day(row.written_at)}  {row.event:<17} {words}".rstrip()


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
    """The entries of a stored transcript; None when the bytes are none."""
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    if not isinstance(value, list):
        return None
    return [entry for entry in value if isinstance(entry, dict)]


def transcript_lines(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """The entries of a turn as a conversation; one of an unknown kind is named, never dropped."""
    lines: list[str] = []
    for entry in entries:
        lines += _entry_lines(entry)
    return lines


def _entry_lines(entry: Mapping[str, Any]) -> list[str]:
    kind = entry.get("kind")
    if kind == "input":
        return _block("asked", str(entry.get("text", "")))
    if kind == "message":
        return _block("said" if entry.get("phase") == "commentary" else "answered", str(entry.get("text", "")))
    if kind == "command":
        status = entry.get("exit_status")
        how = str(entry.get("status") or "not ended") if status is None else f"exit {status}"
        command = plain_command(str(entry.get("command", "")))
        return _block(f"ran ({how})", f"$ {command}\n{_tail(str(entry.get('output') or ''))}".rstrip())
    if kind == "files":
        changes = entry.get("changes") or []
        return _block(
            "edited", "\n".join(f"{change.get('kind') or 'update'} {change.get('path')}" for change in changes)
        )
    return _block(str(entry.get("type") or kind), "")


def output_lines(ended: Ended) -> list[str]:
    """What the call gave back."""
    if ended.output is None:
        return []
    if isinstance(ended.output, str):
        return _block("output", ended.output)
    return _block("output", json.dumps(ended.output, indent=2, ensure_ascii=False, default=str))


def log_lines(data: bytes) -> list[str]:
    """The end of a command's log."""
    return _block("log", _tail(data.decode("utf-8", "replace")))


def _tail(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= _OUTPUT_LINES:
        return text
    return "\n".join([f"… {len(lines) - _OUTPUT_LINES} lines before", *lines[-_OUTPUT_LINES:]])


def _block(head: str, text: str) -> list[str]:
    return [f"{head}:", *(f"    {line}" for line in clean(text).splitlines()), ""]


def settlement_facts(settlement: Settlement | None) -> list[tuple[str, str]]:
    """Why a call has no result, and the command that settles it."""
    if settlement is None:
        return []
    typed = settling_command(settlement)
    return [("why", settlement.words), *([("to settle it", typed)] if typed else [])]


def settling_command(settlement: Settlement | None) -> str | None:
    """The command that settles a call, if one does."""
    if settlement is None or not (settlement.recover or settlement.resume):
        return None
    return f"crw flow recover {settlement.recover}" if settlement.recover else f"crw flow resume {settlement.resume}"


def settlement_record(settlement: Settlement | None) -> dict[str, str | None]:
    """The same as members of a JSON object."""
    return {
        "why": settlement.words if settlement else None,
        "recover": settlement.recover if settlement else None,
        "resume": settlement.resume if settlement else None,
    }


def recover_words(rows: Iterable[Row]) -> dict[str, str]:
    """Call id -> the command that settles it, for every call of a run that waits for one."""
    by_call: dict[str, list[CallRow]] = {}
    for row in rows:
        if isinstance(row, CallRow):
            by_call.setdefault(row.call_id, []).append(row)
    found = {call: read_settlement(own) for call, own in by_call.items()}
    return {call: typed for call, one in found.items() if (typed := settling_command(one)) is not None}

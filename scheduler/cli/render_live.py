"""A run while it lives, as rich draws it: each open call with what its agent is doing. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from scheduler.cli.output import clean, count, duration, one_line, plain_command
from scheduler.cli.view import CallView, RunView
from shared.journal.progress import Progress

_LOG_LINES = 4
_HEADS = ("LANE", "CALL", "STATE", "HOST", "TURNS", "TOKENS", "TIME", "DOING")
_NUMBERS = frozenset({"TURNS", "TOKENS", "TIME"})
# Below this width every column would be an ellipsis: these tell the lanes apart and where each is.
_NARROW_COLUMNS = 60
_HEADS_OF_NARROW = ("LANE", "STATE", "TIME")


def live_view(
    view: RunView, progress: Mapping[str, Progress], now: datetime, *, height: int, width: int
) -> RenderableType:
    """The whole picture for a terminal of this size: a head line, the lanes, the script's newest words."""
    calls = lanes_to_show(view, max(height - _LOG_LINES - 5, 3))
    table = RichTable(box=None, pad_edge=False, header_style="bold", expand=True)
    heads = _HEADS if width >= _NARROW_COLUMNS else _HEADS_OF_NARROW
    for head in heads:
        right, last = head in _NUMBERS, head == "DOING"
        table.add_column(head, justify="right" if right else "left", no_wrap=True, ratio=1 if last else None)
    for call in calls:
        cells = _cells(call, progress.get(call.call_id), now, width)
        table.add_row(*(cells[head] for head in heads))
    parts: list[RenderableType] = [Text(head_line(view, now), style="bold", no_wrap=True, overflow="ellipsis"), table]
    hidden = len({call.path for call in view.calls.values()}) - len(calls)
    if hidden > 0:
        more = f"… {hidden} more lanes; 'crw flow show {view.run_id}' has them all"
        parts.append(Text(more, style="dim", no_wrap=True, overflow="ellipsis"))
    parts += [Text(one_line(line, width), style="dim") for line in view.logs[-_LOG_LINES:]]
    return Group(*parts)


def head_line(view: RunView, now: datetime) -> str:
    """One line over everything."""
    elapsed = duration((now - view.started_at).total_seconds()) if view.started_at else "waits for a scheduler"
    words = [view.run_id, view.status or view.phase or "", f"{view.done}/{len(view.calls)} calls", elapsed]
    if view.tokens is not None:
        words.insert(3, f"{count(view.tokens)} tokens")
    if view.waiting_for and view.status is None:
        words.append(f"waits for host {view.waiting_for}")
    return "  ".join(word for word in words if word)


def lanes_to_show(view: RunView, limit: int) -> list[CallView]:
    """One call a lane, its newest; lanes at work before lanes at rest, at most `limit`, in the lanes' own order."""
    newest: dict[str, CallView] = {}
    for call in view.calls.values():
        newest[call.path] = call
    order = {path: index for index, path in enumerate(dict.fromkeys(call.path for call in view.calls.values()))}
    ranked = sorted(newest.values(), key=lambda call: (call.ended, order[call.path]))[:limit]
    return sorted(ranked, key=lambda call: order[call.path])


def _cells(call: CallView, progress: Progress | None, now: datetime, width: int) -> dict[str, Text]:
    state = Text(f"{call.shown_state} ({call.reason})" if call.reason else call.shown_state, style=_style(call))
    tokens = progress.tokens if progress and not call.ended and progress.tokens is not None else call.tokens
    doing = doing_words(call, progress)
    return {
        "LANE": Text(one_line(call.lane, 24 if width >= _NARROW_COLUMNS else 16)),
        "CALL": Text(one_line(f"{call.name} {call.label or ''}", 32)),
        "STATE": state,
        "HOST": Text(call.host or ""),
        "TURNS": Text(str(call.turns or "")),
        "TOKENS": Text(count(tokens) if tokens is not None else ""),
        "TIME": Text(duration(call.seconds(now))),
        "DOING": Text(one_line(clean(doing), width)),
    }


def doing_words(call: CallView, progress: Progress | None) -> str:
    """What an open call's agent does: its running command, its last message."""
    if progress is None or call.ended:
        return ""
    message = one_line(progress.message or "")
    if progress.command:
        return f"$ {one_line(plain_command(progress.command))}" + (f"  ({message})" if message else "")
    return message


def _style(call: CallView) -> str:
    if not call.ended:
        return "cyan"
    return "green" if call.state == "completed" else "red"

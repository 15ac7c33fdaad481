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


def live_view(
    view: RunView, progress: Mapping[str, Progress], now: datetime, *, height: int, width: int
) -> RenderableType:
    """The whole picture for a terminal of this size: a head line, the lanes, the script's newest words."""
    calls = lanes_to_show(view, max(height - _LOG_LINES - 5, 3))
    table = RichTable(box=None, pad_edge=False, header_style="bold", expand=True)
    for head in ("LANE", "CALL", "STATE", "HOST"):
        table.add_column(head, no_wrap=True)
    for head in ("TURNS", "TOKENS", "TIME"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("DOING", ratio=1, no_wrap=True, overflow="ellipsis")
    for call in calls:
        table.add_row(*_cells(call, progress.get(call.call_id), now, width))
    parts: list[RenderableType] = [Text(head_line(view, now), style="bold", no_wrap=True, overflow="ellipsis"), table]
    hidden = len({call.path for call in view.calls.values()}) - len(calls)
    if hidden > 0:
        parts.append(Text(f"… {hidden} more lanes; 'crw flow show {view.run_id}' has them all", style="dim"))
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


def _cells(call: CallView, progress: Progress | None, now: datetime, width: int) -> list[Text]:
    state = Text(f"{call.shown_state} ({call.reason})" if call.reason else call.shown_state, style=_style(call))
    tokens = progress.tokens if progress and not call.ended and progress.tokens is not None else call.tokens
    doing = doing_words(call, progress)
    return [
        Text(one_line(call.lane, 24)),
        Text(one_line(f"{call.name} {call.label or ''}", 32)),
        state,
        Text(call.host or ""),
        Text(str(call.turns or "")),
        Text(count(tokens) if tokens is not None else ""),
        Text(duration(call.seconds(now))),
        Text(one_line(clean(doing), width)),
    ]


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

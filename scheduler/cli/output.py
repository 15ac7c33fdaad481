"""How commands say things: tables and lines for people, one JSON object a line for programs.

Whatever is shown may hold a model's or a command's own words, so control characters
are taken out before they reach a terminal, and rich never reads them as markup.
"""

from __future__ import annotations

import json
import shlex
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

# Folded more often than this, a table's cells stand upright, a letter or two a line.
_FOLDS = 2


@dataclass(frozen=True)
class Table:
    """A table before it is drawn. Shape: `heads` the columns, `rows` cells of text, `right` the columns of numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()


def is_terminal() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    return sys.stdout.isatty() and Console().is_terminal and not Console().is_dumb_terminal


def say(text: str = "") -> None:
    """One or more lines on standard output."""
    print(clean(text))


def note(text: str) -> None:
    """A line on standard error that is no part of the answer: progress, what is waited for."""
    print(clean(text), file=sys.stderr)


def record(value: Mapping[str, Any]) -> None:
    """One JSON object as one line, at once: a reader of a pipe sees it when it happens."""
    print(json.dumps(value, ensure_ascii=True, default=str), flush=True)


def draw(table: Table) -> None:
    """The table: by rich on a terminal, aligned plain columns elsewhere; row by row where it is far too narrow."""
    if not is_terminal():
        print(plain_table(table))
        return
    console = Console(highlight=False)
    needed = max(map(len, plain_table(table).split("\n")))
    if needed > _FOLDS * console.width:
        print(plain_rows(table))
    else:
        console.print(rich_table(table))


def rich_table(table: Table) -> RichTable:
    """The table as rich draws it; cells are text, never markup."""
    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for head in table.heads:
        drawn.add_column(head, justify="right" if head in table.right else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(clean(cell)) for cell in row))
    return drawn


def plain_table(table: Table) -> str:
    """The table as aligned lines without trailing blanks."""
    rows = [table.heads, *(tuple(one_line(cell) for cell in row) for row in table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.heads))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if head in table.right else cell.ljust(width)
            for head, cell, width in zip(table.heads, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def plain_rows(table: Table) -> str:
    """The table with each row as lines of its own, a head and its cell in each; cells stay whole, to be copied."""
    width = max(map(len, table.heads))
    rows = [
        [f"{head:{width}}  {one_line(cell)}" for head, cell in zip(table.heads, row, strict=True) if cell]
        for row in table.rows
    ]
    return "\n\n".join("\n".join(row) for row in rows)


def clean(text: str) -> str:
    """The text without control characters (newlines and tabs stay) and with lone surrogates replaced."""
    shown = "".join(character for character in text if character in "\n\t" or unicodedata.category(character) != "Cc")
    return shown.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, width: int | None = None) -> str:
    """The text as one line of at most `width` characters, the rest shown as an ellipsis."""
    line = " ".join(clean(text).split())
    if width is not None and len(line) > width:
        return line[: max(width - 1, 0)] + "…"
    return line


def plain_command(command: str) -> str:
    """A command without the shell that codex wraps around it: `/bin/bash -lc 'make test'` is `make test`."""
    try:
        parts = shlex.split(command)
    except ValueError:
        return command
    return parts[2] if len(parts) == 3 and parts[1] in ("-lc", "-c") else command


def count(number: int | None) -> str:
    """A number for people: 950, 1.2k, 3.4M; `-` when there is none."""
    if number is None:
        return "-"
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)


def time_of_day(moment: datetime) -> str:
    """A moment as this machine's clock on the wall would show it."""
    return f"{moment.astimezone():%H:%M:%S}"


def duration(seconds: float | None) -> str:
    """A time span for people: 4s, 3m07s, 2h05m, 3d04h; `-` when there is none."""
    if seconds is None:
        return "-"
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def size(number: int | None) -> str:
    """A number of bytes for people."""
    if number is None:
        return "-"
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"

"""Lists of threads, page by page and without loss.

The server's cursor is a time and a page begins after it, so threads of the same time as
a page's last one are skipped: of the same second in the default order, of the same
millisecond in that of `updated_at`. So each page begins a millisecond early, and what is
known is passed over.
Source: facts of the App Server (lists; measured); settled conflict of finding creations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

PAGE_THREADS = 100
Ask = Callable[[str, dict[str, Any]], Mapping[str, Any]]
"""One request: method and params; the result."""


def walk_threads(ask: Ask, *, limit: int = PAGE_THREADS, **params: Any) -> Iterator[Mapping[str, Any]]:
    """Every entry of a list once, the newest first.

    Args:
        params: of `thread/list`, `cwd` for instance; order and page are this function's own.
    """
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        asked = {**params, "sortKey": "updated_at", "limit": limit, **({"cursor": cursor} if cursor else {})}
        page = ask("thread/list", asked)
        entries = page.get("data") or []
        yield from (entry for entry in entries if entry["id"] not in seen)
        seen |= {entry["id"] for entry in entries}
        if page.get("nextCursor") is None:
            return
        following = _a_millisecond_early(str(page["nextCursor"]))
        if following == cursor:
            # More threads of one millisecond than a page holds.
            limit *= 2
        cursor = following


def walk_loaded(ask: Ask) -> Iterator[str]:
    """The id of every thread in the server's memory."""
    cursor: str | None = None
    while True:
        page = ask("thread/loaded/list", {"cursor": cursor} if cursor else {})
        yield from map(str, page.get("data") or [])
        following = page.get("nextCursor")
        if not following or following == cursor:
            return
        cursor = str(following)


def _a_millisecond_early(cursor: str) -> str:
    """The newest come first: earlier in the list is later in time."""
    moment = datetime.fromisoformat(cursor) + timedelta(milliseconds=1)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Lists of threads, with the real server's cursors: a time, and the next page begins after it.

So a walk skips threads of the same time as a page's last one: of the same second in
the default order, of the same millisecond when sorted by `updated_at`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.fakehost.store import FakeThread
from tests.fakehost.wire import invalid

if TYPE_CHECKING:
    from tests.fakehost.host import Host

Params = Mapping[str, Any]
_SOURCE = "vscode"


def thread_list(host: Host, params: Params) -> dict[str, Any]:
    """Threads that have had a turn of their own, the newest first."""
    by_update = params.get("sortKey") in ("updated_at", "recency_at")

    def moment(thread: FakeThread) -> int:
        return thread.updated_ms if by_update else thread.created_ms

    ascending = params.get("sortDirection") == "asc"
    after = _read_cursor(params.get("cursor"))
    found = sorted(
        (
            thread
            for thread in host.store.listed()
            if _matches(thread, params)
            and (after is None or (moment(thread) > after if ascending else moment(thread) < after))
        ),
        key=moment,
        reverse=not ascending,
    )
    page = found[: int(params.get("limit") or 25)]
    more = _cursor(moment(page[-1]), by_update) if len(page) < len(found) else None
    back = _cursor(moment(page[0]), True) if page else None
    return {"data": [_entry(host, thread) for thread in page], "nextCursor": more, "backwardsCursor": back}


def thread_archive(host: Host, params: Params) -> dict[str, Any]:
    """Put a thread aside: it is read and listed as archived, and neither resumed nor forked."""
    thread = host.store.find_stored(params["threadId"])
    thread.archived = True
    host.store.save(thread)
    host.store.unload(thread.id)
    return {}


def thread_delete(host: Host, params: Params) -> dict[str, Any]:
    """Remove a thread for good, unless another one was forked from it."""
    thread = host.store.find_stored(params["threadId"])
    if host.store.has_forks(thread.id):
        raise invalid(f"cannot delete thread {thread.id}: forked history still references it")
    host.store.remove(thread)
    return {}


def _entry(host: Host, thread: FakeThread) -> dict[str, Any]:
    view = thread.view(host.status(thread), host.version)
    return {**view, "threadSource": None, "canAcceptDirectInput": None}


def _matches(thread: FakeThread, params: Params) -> bool:
    directory, kinds = params.get("cwd"), params.get("sourceKinds")
    directories = [directory] if isinstance(directory, str) else directory
    return (
        thread.archived == bool(params.get("archived"))
        and (directories is None or thread.cwd in directories)
        and (not kinds or _SOURCE in kinds)
    )


def _cursor(milliseconds: int, precise: bool) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds" if precise else "seconds").replace("+00:00", "Z")


def _read_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    try:
        return round(datetime.fromisoformat(cursor).timestamp() * 1000)
    except ValueError:
        raise invalid(f"invalid cursor: {cursor}") from None

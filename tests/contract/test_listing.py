"""Lists of threads: by directory, page by page without loss, and without what was archived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from shared.base.errors import Refused
from tests.contract.hosts import TURN_SECONDS, ContractHost, final
from workers.appserver import AppServerConnection, Thread
from workers.appserver.listing import walk_threads

_LANES = 7


def _walk(connection: AppServerConnection, limit: int = 2, **params: Any) -> Iterator[Mapping[str, Any]]:
    return walk_threads(connection.request, limit=limit, **params)


def _made_at_once(host: ContractHost, cwd: str) -> list[Thread]:
    """Threads of one directory, each with a turn, made and ended as close together as can be."""
    turns = host.connection.turns
    threads = [host.thread(cwd=cwd) for _ in range(_LANES)]
    cursors = [turns.cursor(thread.id) for thread in threads]
    for cursor in cursors:
        turns.start(cursor, host.request(final("done")))
    for cursor in cursors:
        assert cursor.wait(TURN_SECONDS) is not None
        cursor.close()
    return threads


@pytest.mark.req("K15")
def test_threads_made_in_one_second_are_all_found_page_by_page(host: ContractHost) -> None:
    cwd = str(host.workspace())
    threads = _made_at_once(host, cwd)
    elsewhere = host.thread()
    host.run(elsewhere, final("done"))
    found = [entry["id"] for entry in _walk(host.connection, cwd=cwd)]
    assert len(found) == _LANES and set(found) == {thread.id for thread in threads}
    whole = host.connection.request("thread/list", {"cwd": cwd, "limit": 100})
    assert {entry["id"] for entry in whole["data"]} == set(found) and whole.get("nextCursor") is None
    both = [entry["id"] for entry in _walk(host.connection, cwd=[cwd, elsewhere.cwd])]
    assert set(both) == {thread.id for thread in threads} | {elsewhere.id}


@pytest.mark.req("K15")
def test_a_list_s_entry_has_no_mark_and_a_source_that_is_not_app_server(host: ContractHost) -> None:
    wanted = host.wanted()
    thread = host.connection.threads.start(wanted)
    host.run(thread, final("done"))
    (entry,) = _walk(host.connection, cwd=wanted.cwd)
    assert (entry["id"], entry["source"], entry["threadSource"]) == (thread.id, "vscode", None)
    assert host.connection.threads.read(thread.id).source == wanted.source
    assert [e["id"] for e in _walk(host.connection, cwd=wanted.cwd, sourceKinds=["vscode"])] == [thread.id]
    assert list(_walk(host.connection, cwd=wanted.cwd, sourceKinds=["appServer"])) == []


@pytest.mark.req("K15")
def test_a_list_outlives_its_server(own_host: ContractHost) -> None:
    cwd = str(own_host.workspace())
    threads = _made_at_once(own_host, cwd)
    own_host.kill()
    found = {entry["id"]: entry["status"]["type"] for entry in _walk(own_host.connection, cwd=cwd)}
    assert found == dict.fromkeys((thread.id for thread in threads), "notLoaded")


def test_a_cursor_that_is_none_is_refused(host: ContractHost) -> None:
    with pytest.raises(Refused, match="invalid cursor: zz"):
        host.connection.request("thread/list", {"cursor": "zz"})


@pytest.mark.req("A01")
def test_an_archived_thread_is_read_and_listed_apart_and_goes_on_nowhere(host: ContractHost) -> None:
    wanted = host.wanted()
    connection = host.connection
    thread = connection.threads.start(wanted)
    end = host.run(thread, final("done"))
    connection.request("thread/archive", {"threadId": thread.id})
    assert list(_walk(connection, cwd=wanted.cwd)) == []
    assert [entry["id"] for entry in _walk(connection, cwd=wanted.cwd, archived=True)] == [thread.id]
    assert host.read(end).status == "completed"
    with pytest.raises(Refused, match="is archived"):
        connection.threads.resume(thread.id, wanted)
    with pytest.raises(Refused, match="is archived"):
        connection.threads.fork(thread.id, end.turn_id, wanted)

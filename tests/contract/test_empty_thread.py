"""A thread before its first turn: in memory alone, in no list, and gone with its server."""

from __future__ import annotations

import pytest

from shared.base.errors import Refused, ThreadMissing
from tests.contract.hosts import ContractHost, final


@pytest.mark.req("T23")
def test_an_empty_thread_cannot_be_resumed_but_runs_its_first_turn(host: ContractHost) -> None:
    wanted = host.wanted()
    thread = host.connection.threads.start(wanted)
    with pytest.raises(ThreadMissing, match="no rollout found"):
        host.connection.threads.resume(thread.id, wanted)
    assert host.run(thread, final("done")).status == "completed"


@pytest.mark.req("A14", "K30")
@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        (
            "thread/turns/list",
            {},
            "thread/turns/list is unavailable before first user message",
        ),
        ("thread/items/list", {}, "thread/items/list is not supported yet"),
        ("thread/read", {"includeTurns": True}, "list_turns is not supported yet"),
    ],
)
def test_the_pages_of_an_empty_thread_are_an_error_and_no_empty_page(
    host: ContractHost, method: str, params: dict[str, object], text: str
) -> None:
    thread = host.thread()
    with pytest.raises(Refused, match=text):
        host.connection.request(method, {"threadId": thread.id, **params})


@pytest.mark.req("A14", "T23", "K30")
def test_the_turns_of_an_empty_thread_are_none(host: ContractHost) -> None:
    assert list(host.connection.turns.list_full(host.thread().id)) == []


@pytest.mark.req("K15")
def test_an_empty_thread_is_among_the_loaded_ones_and_in_no_list(host: ContractHost) -> None:
    thread = host.thread()
    connection = host.connection
    assert connection.threads.read(thread.id).status == "idle"
    assert thread.id in connection.request("thread/loaded/list", {"limit": 1000})["data"]
    listed = connection.request("thread/list", {"cwd": thread.cwd, "sortKey": "updated_at"})
    assert listed["data"] == []


@pytest.mark.req("K15", "K16", "T24")
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "in order"])
def test_an_empty_thread_is_gone_with_its_server(own_host: ContractHost, killed: bool) -> None:
    wanted = own_host.wanted()
    thread = own_host.connection.threads.start(wanted)
    if killed:
        own_host.kill()
    after = own_host.connection if killed else own_host.restart()
    with pytest.raises(ThreadMissing, match="thread not loaded"):
        after.threads.read(thread.id)
    with pytest.raises(ThreadMissing, match="thread not loaded"):
        list(after.turns.list_full(thread.id))
    with pytest.raises(ThreadMissing, match="no rollout found"):
        after.threads.resume(thread.id, wanted)
    with pytest.raises(ThreadMissing, match="no rollout found"):
        after.threads.fork(thread.id, thread.id, wanted)
    with after.turns.cursor(thread.id) as cursor, pytest.raises(ThreadMissing, match="thread not found"):
        after.turns.start(cursor, own_host.request(final("never")))
    assert thread.id not in after.request("thread/loaded/list", {})["data"]

"""More at once than a worker ever sends, and what a worker does send: nothing is lost in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shared.base.errors import NotSent
from tests.contract.hosts import ContractHost, final
from workers.appserver import rpc

_UNBOUND = 200
_BURST = 80


def _loaded(host: ContractHost) -> Iterator[str]:
    cursor: str | None = None
    while True:
        page: dict[str, Any] = host.connection.request("thread/loaded/list", {"cursor": cursor, "limit": 1000})
        yield from page["data"]
        cursor = page.get("nextCursor")
        if cursor is None:
            return


@pytest.mark.req("K24")
def test_two_hundred_requests_in_flight_are_answered_or_refused_as_too_many(
    own_host: ContractHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "MAX_IN_FLIGHT", _UNBOUND)
    thread = own_host.thread()
    own_host.run(thread, final("done"))
    connection = own_host.connection

    def read(_: int) -> str:
        try:
            return connection.threads.read(thread.id).id
        except NotSent as error:
            return str(error.facts.get("code"))

    with ThreadPoolExecutor(_UNBOUND) as pool:
        answers = Counter(pool.map(read, range(_UNBOUND)))
    assert answers.total() == _UNBOUND and set(answers) <= {thread.id, str(rpc.OVERLOADED)}
    assert connection.threads.read(thread.id).id == thread.id


@pytest.mark.req("K24")
def test_with_the_bound_of_a_worker_no_request_with_an_effect_is_lost(own_host: ContractHost) -> None:
    connection = own_host.connection
    before = set(_loaded(own_host))
    wanted = [own_host.wanted(cwd=own_host.workspace("shared")) for _ in range(_BURST)]
    with ThreadPoolExecutor(_BURST) as pool:
        made = list(pool.map(lambda one: connection.threads.start(one), wanted))
    # Each was answered with a thread of its own, and the server has these and no others.
    assert len({thread.id for thread in made}) == _BURST
    assert set(_loaded(own_host)) - before == {thread.id for thread in made}
    assert [thread.source for thread in made] == [one.source for one in wanted]

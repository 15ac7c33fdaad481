"""What the server asks is declined at once, and the turn goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.hosts import MODEL, TURN_SECONDS, ContractHost, final
from workers.appserver import pick_answer

_ESCALATED = {
    "out": [
        {"exec": "touch made", "sandbox_permissions": "require_escalated", "justification": "must", "call_id": "c1"}
    ]
}


def _start_asking(host: ContractHost) -> dict[str, Any]:
    """A thread that asks for approval: the adapter never makes one, so it is started by hand."""
    params = {"cwd": str(host.workspace()), "model": MODEL, "sandbox": "read-only", "approvalPolicy": "on-request"}
    started = host.connection.request("thread/start", params)
    return dict(started["thread"])


@pytest.mark.req("C22", "K61")
def test_an_approval_is_declined_and_the_turn_goes_on(host: ContractHost) -> None:
    thread, turns = _start_asking(host), host.connection.turns
    with turns.cursor(thread["id"]) as cursor:
        turns.start(cursor, host.request(_ESCALATED, final("went on")))
        end = cursor.wait(TURN_SECONDS)
    assert end is not None and end.status == "completed"
    commands = [item for item in end.items if item["type"] == "commandExecution"]
    assert [command["status"] for command in commands] == ["declined"]
    assert pick_answer(end.items) == "went on"

"""Every server request has its answer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.waiting import wait_until
from workers.appserver.requests import Answerer, plan_answer
from workers.appserver.rpc import Rpc


@pytest.mark.req("C22", "C23", "K61")
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("item/commandExecution/requestApproval", {"decision": "decline"}),
        ("item/fileChange/requestApproval", {"decision": "decline"}),
        ("item/permissions/requestApproval", {"permissions": {}, "scope": "turn"}),
        ("item/tool/requestUserInput", {"answers": {}}),
        ("mcpServer/elicitation/request", {"action": "cancel", "content": None}),
    ],
)
def test_what_asks_for_leave_gets_none(method: str, result: dict[str, object]) -> None:
    assert plan_answer(method) == {"result": result}


@pytest.mark.req("C22")
@pytest.mark.parametrize("method", ["applyPatchApproval", "execCommandApproval"])
def test_the_older_approvals_are_declined_in_their_own_words(method: str) -> None:
    assert set(plan_answer(method)["result"]["decision"]) == {"denied"}


@pytest.mark.req("C22")
@pytest.mark.parametrize("method", ["account/chatgptAuthTokens/refresh", "attestation/generate", "item/new/thing"])
def test_credentials_and_unknown_requests_get_an_error(method: str) -> None:
    assert plan_answer(method)["error"]["code"] == -32601


class Written:
    """What a generation's connection was told."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


@pytest.mark.req("K68")
def test_a_request_is_answered_on_the_generation_that_asked_and_never_on_the_next_one_with_the_same_number() -> None:
    old, new = Written(), Written()
    of_old, of_new = Answerer(cast(Rpc, old)), Answerer(cast(Rpc, new))
    of_old.close()
    # Ids begin anew with each server: what the dead one still had asked is withdrawn with it.
    of_old.take({"id": 0, "method": "item/tool/requestUserInput"})
    of_new.take({"id": 0, "method": "item/fileChange/requestApproval"})
    wait_until(lambda: new.messages, 5, "the answer")
    of_new.close()
    assert new.messages == [{"id": 0, "result": {"decision": "decline"}}] and old.messages == []

"""Every server request has its answer."""

from __future__ import annotations

import pytest

from workers.appserver.requests import plan_answer


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

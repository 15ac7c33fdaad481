"""What the server asks of us, answered at once by rule: nobody is there to approve anything.

Declining lets the turn go on with a refused command; `cancel` would interrupt the
whole turn, so it stands only where nothing else says no. Source: facts of the App
Server, "Server -> client requests"; configuration boundary, "Implementation choices".
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from typing import Any

from shared.base.errors import HostError
from shared.base.log import get_logger
from workers.appserver.rpc import Rpc

log = get_logger()

_DENIED = {"decision": {"denied": {"rejection": "this farm approves nothing during a turn"}}}
_ANSWERS: dict[str, dict[str, Any]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "cancel", "content": None},
    # The two older approval methods have a vocabulary of their own.
    "applyPatchApproval": _DENIED,
    "execCommandApproval": _DENIED,
}
_METHOD_NOT_FOUND = -32601


def plan_answer(method: str) -> dict[str, Any]:
    """The `result` or `error` member with which a server's request is answered."""
    if method in _ANSWERS:
        return {"result": _ANSWERS[method]}
    sentence = f"this client does not answer {method}: no person is here to ask and no credential is given out"
    return {"error": {"code": _METHOD_NOT_FOUND, "message": sentence}}


class Answerer:
    """Answers on a thread of its own: a reader that writes could wait for a server that waits for it."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._asked: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="app-server-answers", daemon=True).start()

    def take(self, request: Mapping[str, Any]) -> None:
        """A server's request, from the reader thread."""
        self._asked.put(request)

    def close(self) -> None:
        """No more answers."""
        self._asked.put(None)

    def _run(self) -> None:
        while (request := self._asked.get()) is not None:
            method = str(request.get("method"))
            log.info("app_server_request_answered", method=method)
            try:
                self._rpc.send({"id": request.get("id"), **plan_answer(method)})
            except HostError as error:
                log.warning("app_server_answer_not_written", method=method, why=str(error))

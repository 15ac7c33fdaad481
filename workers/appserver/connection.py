"""One generation of the host's App Server, as a call uses it.

A connection keeps its generation: when that server dies, all that waits on it raises
AnswerLost, and a new server is another connection.
Source: design of the farm, "Processes"; settled conflict of one server a host.
"""

from __future__ import annotations

from typing import Any

from shared.base.errors import Refused
from shared.model.outcome import PAIR_REFUSED
from workers.appserver.process import AppServer
from workers.appserver.threads import Threads
from workers.appserver.turns import Turns

_BUILT_IN_PROVIDER = "openai"


class AppServerConnection:
    """One generation of the server, as a call uses it.

    Shape: `threads` and `turns` are what can be asked; `generation` and `version`
    go into rows. When the server dies, all that waits on it raises AnswerLost.
    """

    def __init__(self, server: AppServer, models: list[str]) -> None:
        self.generation = server.generation
        self.version = server.version
        self.threads = Threads(server.rpc, server.loaded)
        self.turns = Turns(server.rpc, server.router)
        self._server = server
        self._models = models

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._server.pid

    @property
    def alive(self) -> bool:
        """Whether this generation still runs."""
        return self._server.alive

    def stop(self, grace_seconds: float) -> bool:
        """End this generation: whoever waits on it hears AnswerLost. Whether it is gone."""
        return self._server.stop(grace_seconds)

    def request(self, method: str, params: dict[str, Any], *, timeout_seconds: float | None = None) -> dict[str, Any]:
        """Any request of the protocol. Raises NotSent, Refused, AnswerLost."""
        return self._server.rpc.request(method, params, timeout_seconds=timeout_seconds)

    def account(self) -> dict[str, Any] | None:
        """Who is logged in, as the server says it; None for nobody. Raises as `request` does."""
        found = self.request("account/read", {}).get("account")
        return found if isinstance(found, dict) else None

    def check_pair(self, model: str, effort: str) -> None:
        """Refuse a pair that the provider does not have: the server itself would echo any text.

        A configured provider is held against `codex.models` (empty: any name), the
        built-in one against the server's own catalogue.

        Raises:
            Refused: reason `pair_refused`. NotSent, AnswerLost.
        """
        provider = self._server.config.get("model_provider") or _BUILT_IN_PROVIDER
        if provider != _BUILT_IN_PROVIDER:
            if self._models and model not in self._models:
                raise _pair_refused(f"model {model!r} is not in codex.models ({', '.join(self._models)})")
            return
        efforts = self._catalogue().get(model)
        if efforts is None:
            raise _pair_refused(f"the App Server's catalogue has no model {model!r}")
        if effort not in efforts:
            raise _pair_refused(f"model {model!r} has no effort {effort!r}, only {', '.join(efforts)}")

    def _catalogue(self) -> dict[str, list[str]]:
        catalogue: dict[str, list[str]] = {}
        cursor: str | None = None
        while True:
            params = {"includeHidden": True, **({"cursor": cursor} if cursor else {})}
            page = self.request("model/list", params)
            for model in page.get("data") or []:
                efforts = [str(e.get("reasoningEffort")) for e in model.get("supportedReasoningEfforts") or []]
                catalogue[str(model.get("model"))] = efforts
            cursor = page.get("nextCursor")
            if not cursor:
                return catalogue


def _pair_refused(sentence: str) -> Refused:
    error = Refused(sentence)
    error.reason = PAIR_REFUSED
    return error

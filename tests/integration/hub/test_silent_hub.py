"""A hub that takes the connection and says nothing more."""

from __future__ import annotations

import socket

import pytest

from shared.base.errors import UsageError
from shared.hub import hub


@pytest.mark.req("K26", "K71")
def test_a_hub_that_never_answers_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_LIST_TIMEOUT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x.git"
        with pytest.raises(UsageError, match=r"cannot be read .*deadline.* check the URL"):
            hub.check_hub(url, None, None)

"""A run says which silent host it waits for."""

import pytest

from scheduler.flow.silence import silent_hosts
from shared.journal.open_calls import OpenCallState


def call(name, state, host):
    return OpenCallState(name, "main", 1, "agent", None, None, None, state, host, None, False, 0, 0, 0, None, None)


@pytest.mark.req("RULE27")
def test_calls_that_nobody_has_wait_for_their_silent_host():
    calls = [
        call("c1", "stranded", "gone"), call("c2", "open", "gone"), call("c3", "open", None),
        call("c4", "claimed", "gone"), call("c5", "open", "up"),
    ]  # fmt: skip
    assert silent_hosts(calls, lambda host: host == "up") == {"gone": ["c1", "c2"]}

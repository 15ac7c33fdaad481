"""What an open call waits for, in words."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.cli.render_run import status_words, waiting_words
from scheduler.cli.view import RunView
from shared.journal.open_calls import OpenCallState
from tests.factories import BEGIN, RUN, RunRows


def open_call(**given: Any) -> OpenCallState:
    values: dict[str, Any] = dict.fromkeys(OpenCallState.__dataclass_fields__)
    values.update(call_id="c", path="main", position=1, kind="agent", state="open", opened_at=BEGIN)
    return OpenCallState(**{**values, **given})


@pytest.mark.req("RULE27")
@pytest.mark.parametrize(
    ("call", "able", "words"),
    [
        (open_call(), {"h1": True}, "a free worker"),
        (open_call(), {}, "a worker: none is up that may take it"),
        (open_call(), {"h1": False}, "a worker: those that are up drain"),
        (open_call(), {"h1": False, "h2": True}, "a free worker"),
        (open_call(host="h1"), {"h1": False}, "a free slot on host h1"),
        (open_call(host="h1"), {"h2": True}, "host h1, which is not up"),
        (open_call(state="claimed", host="h1"), {"h1": True}, "its worker on h1"),
        (open_call(state="claimed", host="h1", call_id="quiet"), {"h1": True}, "host h1, which is silent"),
        (open_call(state="stranded", host="h1"), {"h1": True}, "host h1: its worker died after something was sent"),
        (open_call(state="lost", host="h1"), {}, "the scheduler: its host is lost"),
    ],
)
def test_an_open_call_says_what_it_waits_for(call: OpenCallState, able: dict[str, bool], words: str):
    assert waiting_words(call, {"quiet": "h1"}, able) == words


def test_an_agent_s_work_that_has_to_reach_the_hub_is_finishing():
    rows = RunRows()
    rows.call("prepared", role="executor")
    rows.call("push_requested")
    rows.call("prepared", position=2, kind="commit")
    rows.call("push_requested", position=2, kind="commit")
    agent, commit = RunView.of(RUN, rows.rows).calls.values()
    assert (status_words(agent), status_words(commit)) == ("finishing", "push_requested")

"""A run as its rows tell it."""

from __future__ import annotations

import pytest

from scheduler.cli.view import RunView, lane_name
from shared.model.silence import silent_host_escalation
from tests.factories import RUN, RunRows


def built_lane() -> RunRows:
    """A design call, then a lane with an executor that ended and a verify that runs."""
    rows = RunRows()
    rows.event("started", {"takes": 1})
    rows.event("phase", {"name": "build"})
    rows.call("prepared", role="architect", label="plan")
    rows.call("completed", role="architect", tokens=100)
    lane = "main/2[core]"
    rows.call("prepared", path=lane, role="executor", node_id="core")
    rows.call("placed", path=lane, host="h1")
    rows.call("turn_requested", path=lane)
    rows.call("user_message_seen", path=lane)
    rows.call("turn_ended", path=lane, tokens=50)
    rows.call("completed", path=lane, tokens=50)
    rows.call("prepared", path=lane, position=2, kind="verify", node_id="core")
    rows.call("command_started", path=lane, position=2, kind="verify", host="h1")
    return rows


@pytest.mark.parametrize(
    ("path", "name"),
    [("main", "main"), ("main/2[core]", "core"), ("main/2[a%2Fb]/1[inner]", "a/b/inner")],
)
def test_a_lane_is_named_by_the_keys_of_its_items(path, name):
    assert lane_name(path) == name


@pytest.mark.req("X08")
def test_the_fold_knows_phase_calls_hosts_turns_and_tokens():
    view = RunView.of(RUN, built_lane().rows)
    assert (view.phase, view.done, len(view.open_calls), view.tokens) == ("build", 2, 1, 150)
    build, verify = list(view.calls.values())[1:]
    assert (build.name, build.lane, build.host, build.turns, build.state) == ("executor", "core", "h1", 1, "completed")
    assert (verify.name, verify.state, verify.ended) == ("verify", "command_started", False)


@pytest.mark.req("X08", "J41")
def test_rows_one_by_one_and_rows_at_once_make_the_same_view():
    rows = built_lane().rows
    watched = RunView(RUN)
    for row in rows:
        watched.add(row)
    assert watched == RunView.of(RUN, rows)


def test_a_new_attempt_opens_the_call_again():
    rows = RunRows()
    rows.call("prepared")
    rows.call("held", detail={"reason": "worker_stopped"})
    rows.call("prepared", attempt=1)
    (call,) = RunView.of(RUN, rows.rows).calls.values()
    assert (call.ended, call.reason, call.attempt, call.ended_at) == (False, None, 1, None)


@pytest.mark.req("K38")
def test_a_host_that_a_resume_asked_is_named_until_it_answers_or_another_process_asks():
    rows = RunRows()
    for word, data in (("host_answered", {"host": "h1"}), ("started", {"lineage": 2})):
        rows.event("waiting_for_host", {"host": "h1", "calls": [], "reason": "host_unreachable"})
        assert RunView.of(rows.run_id, rows.rows).waiting_for == "h1"
        rows.event(word, data)
        assert RunView.of(rows.run_id, rows.rows).waiting_for is None


@pytest.mark.req("RULE27")
def test_a_silent_host_is_named_until_its_call_moves_again():
    rows = RunRows()
    call = rows.call("prepared").call_id
    rows.event("waiting_for_host", {"host": "h1", "calls": [call], "reason": "host_unreachable"})
    view = RunView.of(RUN, rows.rows)
    assert (view.waiting_for, view.silent) == ("h1", {call: "h1"})
    escalation = silent_host_escalation("h1", [call], 121.7)
    view.add(rows.event(escalation.kind, escalation.data))
    assert view.ask == "host h1 has been silent for 122 s: start its worker, or give it up with 'crw host lost h1'"
    view.add(rows.call("outcome_unknown"))
    assert (view.waiting_for, view.ask) == (None, None)


def test_the_finished_row_gives_status_and_error():
    rows = RunRows()
    rows.event("finished", {"status": "failed", "error_kind": "script_error", "message": "boom"})
    view = RunView.of(RUN, rows.rows)
    assert (view.status, view.error_kind, view.message) == ("failed", "script_error", "boom")

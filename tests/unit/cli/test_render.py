"""Runs, calls and rows as text."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from scheduler.cli.output import plain_table
from scheduler.cli.render_call import (
    call_facts,
    log_lines,
    parse_transcript,
    rows_lines,
    transcript_digests,
    transcript_lines,
)
from scheduler.cli.render_rows import row_line, row_record
from scheduler.cli.render_run import calls_table, facts_lines, run_facts, run_record
from scheduler.cli.view import RunView
from tests.factories import BEGIN, RUN, RunRows, make_event_row
from tests.unit.cli.test_view import built_lane

NOW = BEGIN + timedelta(minutes=3)


@pytest.mark.req("X08")
def test_show_lists_the_calls_lane_by_lane_and_says_what_open_ones_wait_for():
    view = RunView.of(RUN, built_lane().rows)
    verify = view.open_calls[0]
    lines = plain_table(calls_table(view, {verify.call_id: "host h1"}, NOW)).splitlines()
    assert lines[0].split() == [
        "LANE",
        "POS",
        "CALL",
        "NODE",
        "LABEL",
        "STATE",
        "HOST",
        "TURNS",
        "TOKENS",
        "TIME",
        "WAITS",
        "FOR",
        "ID",
    ]
    assert lines[1].split()[:4] == ["main", "1", "architect", "plan"]
    assert lines[2].split()[:5] == ["core", "1", "executor", "core", "completed"]
    assert "host h1" in lines[3]
    assert not lines[3].startswith("core")


def test_the_facts_of_a_run_leave_out_what_nobody_knows():
    view = RunView.of(RUN, built_lane().rows)
    text = facts_lines(run_facts(view, "running", {"workflow": "flow.py", "key": None}, NOW))
    assert "workflow     flow.py" in text
    assert "2 done, 1 open" in text
    assert "key" not in text


def test_a_run_is_one_json_object():
    record = json.loads(json.dumps(run_record(RunView.of(RUN, built_lane().rows), "running", {"key": "k"}, {})))
    assert (record["run"], record["open"], record["key"], len(record["calls"])) == (RUN, 1, "k", 3)


def test_a_call_shows_its_newest_facts_and_every_row():
    rows = RunRows()
    rows.call("prepared", role="executor", node_id="core", detail={"pair": ["m", "low"], "prompt": "secret words"})
    rows.call("placed", host="h1", worktree_path="/s/wt", start_commit="c" * 40, allocation=1)
    rows.call("turn_requested", detail={"operation": "x/t1"})
    rows.call("turn_ended", turn_id="t1", detail={"status": "completed", "transcript": "d" * 64})
    rows.call("completed", tokens=2100, thread_id="th", pending_tree="p" * 40)
    view = RunView.of(RUN, rows.rows)
    facts = dict(call_facts(next(iter(view.calls.values())), rows.rows))
    assert facts["pair"] == "m low" and facts["worktree"] == "/s/wt" and facts["tokens"] == "2.1k"
    lines = rows_lines(rows.rows)
    assert len(lines) == 5
    assert "secret words" not in "\n".join(lines)
    assert transcript_digests(rows.rows) == [("t1", "d" * 64)]


def test_a_transcript_reads_as_a_conversation_and_drops_no_unknown_entry():
    entries = [
        {"kind": "input", "text": "do it"},
        {"kind": "command", "command": "make", "output": "\x1b[1mok\n", "exit_status": 0},
        {"kind": "command", "command": "sleep 9", "status": "inProgress", "exit_status": None},
        {"kind": "files", "changes": [{"path": "a.py", "kind": "add"}]},
        {"kind": "message", "text": "done", "phase": "final_answer"},
        {"kind": "other", "type": "newThing"},
    ]
    text = "\n".join(transcript_lines(parse_transcript(json.dumps(entries).encode()) or []))
    assert "asked:\n    do it" in text
    assert "ran (exit 0):\n    $ make\n    [1mok" in text
    assert "ran (inProgress)" in text
    assert "edited:\n    add a.py" in text
    assert "answered:\n    done" in text
    assert "newThing:" in text
    assert parse_transcript(b"\xff") is None and parse_transcript(b"3") is None


def test_a_long_output_is_cut_at_its_beginning():
    lines = log_lines("\n".join(f"line {number}" for number in range(100)).encode())
    assert lines[1] == "    … 60 lines before" and lines[-2] == "    line 99"


@pytest.mark.req("X08")
def test_a_followed_row_is_one_line_and_the_chatter_is_left_out():
    lines = [line for row in built_lane().rows if (line := row_line(row))]
    assert lines[1].endswith("  main           == build ==")
    assert any("placed on h1" in line for line in lines)
    assert not any("user_message_seen" in line for line in lines)


@pytest.mark.parametrize(
    ("data", "said"), [({}, "said what is still there"), ({"given_up": True}, "was given up and is not asked any more")]
)
def test_who_follows_hears_what_ended_the_waiting_for_a_host(data, said):
    line = row_line(make_event_row(kind="host_answered", data={"host": "h1", **data}))
    assert line is not None and line.endswith(f"host h1 {said}")


def test_a_row_as_json_has_every_value_it_carries_but_no_result():
    rows = RunRows()
    row = rows.call("completed", result=b'"x"', result_bytes=3, tokens=5)
    record = json.loads(json.dumps(row_record(row)))
    assert record["table"] == "flow_calls" and record["tokens"] == 5 and record["result_bytes"] == 3
    assert "result" not in record and "host" not in record

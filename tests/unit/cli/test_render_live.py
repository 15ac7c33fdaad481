"""The live picture: one line a lane, work before rest, what the agent does."""

from __future__ import annotations

import io
from datetime import timedelta

from rich.console import Console

from scheduler.cli.render_live import doing_words, head_line, lanes_to_show, live_view
from scheduler.cli.view import RunView
from shared.journal.progress import Progress
from tests.factories import BEGIN, RUN, RunRows
from tests.unit.cli.test_view import built_lane

NOW = BEGIN + timedelta(seconds=90)


def drawn(view: RunView, progress: dict[str, Progress], *, height: int = 30, width: int = 120) -> str:
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(live_view(view, progress, NOW, height=height, width=width))
    return console.export_text()


def many_lanes(number: int) -> RunView:
    rows = RunRows()
    for lane in range(number):
        rows.call("prepared", path=f"main/1[n{lane}]", role="executor")
        if lane % 2:
            rows.call("completed", path=f"main/1[n{lane}]")
    return RunView.of(RUN, rows.rows)


def test_an_open_call_shows_its_running_command_else_its_last_message():
    view = RunView.of(RUN, built_lane().rows)
    (call,) = view.open_calls
    progress = Progress(call.call_id, 1, message="I look around", command=None, tokens=2500)
    text = drawn(view, {call.call_id: progress})
    assert "I look around" in text and "2.5k" in text and "core" in text
    assert doing_words(call, Progress(call.call_id, 1, message="x", command="make test")) == "$ make test  (x)"
    assert doing_words(call, None) == ""


def test_the_head_line_says_phase_calls_tokens_and_time():
    assert head_line(RunView.of(RUN, built_lane().rows), NOW) == f"{RUN}  build  2/3 calls  150 tokens  1m29s"
    assert "waits for a scheduler" in head_line(RunView(RUN), NOW)


def test_a_small_terminal_shows_working_lanes_first_and_counts_the_rest():
    view = many_lanes(40)
    shown = lanes_to_show(view, 10)
    assert len(shown) == 10 and not any(call.ended for call in shown)
    assert [call.lane for call in shown] == [f"n{lane}" for lane in range(0, 20, 2)]
    assert "more lanes" in drawn(view, {}, height=15)


def test_what_an_agent_says_is_never_read_as_markup_or_control_codes():
    view = RunView.of(RUN, built_lane().rows)
    (call,) = view.open_calls
    text = drawn(view, {call.call_id: Progress(call.call_id, 1, message="[bold]\x1b[2Jhello[/nope]")})
    assert "[bold][2Jhello[/nope]" in text


def test_on_forty_columns_the_lanes_are_told_apart_and_no_line_is_wider():
    text = drawn(many_lanes(12), {}, height=20, width=40)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 40 and len(lines) <= 20
    assert all(any(line.startswith(f"n{lane} ") and "prepared" in line for line in lines) for lane in (0, 2, 4))

"""Words for people: cut, cleaned, aligned."""

from __future__ import annotations

import pytest

from scheduler.cli.flow_result import print_outcome
from scheduler.cli.output import Table, clean, count, draw, duration, one_line, plain_command, plain_table, size
from scheduler.outcome import Outcome


def test_control_characters_and_lone_surrogates_never_reach_the_terminal():
    assert clean("a\x1b[31mred\x07\x00\tb\n\ud800") == "a[31mred\tb\n?"


def test_one_line_folds_blanks_and_cuts_with_an_ellipsis():
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("abcdef", 4) == "abc…"


def test_a_plain_table_aligns_its_columns_and_leaves_no_trailing_blanks():
    table = Table(("NAME", "N"), (("core", "7"), ("x", "")), frozenset({"N"}))
    assert plain_table(table) == "NAME  N\ncore  7\nx"


@pytest.mark.parametrize("columns", [40, 120])
def test_on_a_terminal_far_too_narrow_for_a_table_its_cells_stay_whole(columns, monkeypatch, capsys):
    monkeypatch.setattr("scheduler.cli.output.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    heads = ("RUN", "KEY", "STATE", "TOKENS")
    draw(Table(heads, tuple((run, "k" * 60, "script_error", "") for run in ("raaaaaaaaaaaa", "rbbbbbbbbbbbb"))))
    said = capsys.readouterr().out
    assert all(cell in said for cell in ("raaaaaaaaaaaa", "rbbbbbbbbbbbb", "k" * 60, "script_error"))
    assert ("\n\n" in said) == (columns == 40)


@pytest.mark.parametrize(
    ("wrapped", "plain"),
    [
        ("/bin/bash -lc 'make test'", "make test"),
        ("bash -c \"echo 'a b'\"", "echo 'a b'"),
        ("make test", "make test"),
        ("it's broken", "it's broken"),
    ],
)
def test_a_command_is_shown_without_the_shell_around_it(wrapped: str, plain: str):
    assert plain_command(wrapped) == plain


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, "-"), (4.9, "4s"), (187, "3m07s"), (7500, "2h05m"), (273600, "3d04h")]
)
def test_durations_are_short(seconds, words):
    assert duration(seconds) == words


def test_numbers_and_sizes_are_short():
    assert [count(n) for n in (None, 950, 1234, 3_400_000)] == ["-", "950", "1.2k", "3.4M"]
    assert [size(n) for n in (None, 12, 3 << 20, 5 << 40)] == ["-", "12 B", "3 MiB", "5.0 TiB"]


def test_the_words_of_a_run_that_failed_cannot_draw_on_a_terminal(capsys):
    print_outcome(
        Outcome("r1", "script_error", "script", "red \x1b[31m", "Traceback\n  \x1b[2J\x9b here"), as_json=False
    )
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "run r1 script_error: red [31m\nTraceback\n  [2J here\n")

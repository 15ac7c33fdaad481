"""A batch is refused whole for one bad line, and repeatable."""

from __future__ import annotations

import json

import pytest

from scheduler.batch_file import read_batch
from shared.base.errors import UsageError

GOOD = {"script": "flow.py", "repo": ".", "args": {"n": 1}}


def batch(*lines: object) -> list[bytes]:
    return [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]


def test_empty_lines_count_but_are_passed_over():
    (line,) = read_batch(batch(b"\n", GOOD, b"  \n"), {})
    assert (line.number, line.wanted.args, line.derived) == (2, {"n": 1}, True)


@pytest.mark.req("K71")
@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (b"{nope}\n", "line 2 is not JSON"),
        (b'{"script": "flow.py", "repo": ".", "repo": "r"}\n', "the member 'repo' stands twice"),
        ([1], "line 2 is no JSON object"),
        ({**GOOD, "scirpt": "x"}, "line 2: there is no member 'scirpt'"),
        ({**GOOD, "max_turns": "3"}, "line 2: max_turns is a number, not '3'"),
        ({**GOOD, "max_turns": True}, "line 2: max_turns is a number, not True"),
        ({"script": "flow.py"}, "line 2: repo is missing"),
    ],
)
def test_one_bad_line_refuses_the_file_and_is_named(bad, sentence):
    with pytest.raises(UsageError, match=sentence.replace("[", r"\[")):
        read_batch(batch(GOOD, bad, GOOD), {})


def test_a_batch_without_a_line_is_refused():
    with pytest.raises(UsageError, match="has no line"):
        read_batch([b"\n"], {})


@pytest.mark.req("T51")
def test_the_same_file_gives_the_same_keys_and_equal_lines_are_told_apart():
    lines = batch(GOOD, GOOD, {**GOOD, "args": {"n": 2}}, {**GOOD, "key": "mine"})
    keys = [line.wanted.key for line in read_batch(lines, {})]
    assert keys == [line.wanted.key for line in read_batch(lines, {})]
    assert len(set(keys)) == 4 and keys[3] == "mine"
    assert keys[0].removesuffix("-1") == keys[1].removesuffix("-2")


@pytest.mark.req("T51")
def test_one_key_for_two_different_runs_is_refused_before_anything_is_submitted():
    with pytest.raises(UsageError, match="line 2: key 'k' is that of line 1"):
        read_batch(batch({**GOOD, "key": "k"}, {**GOOD, "key": "k", "args": {}}), {})


def test_defaults_fill_what_a_line_leaves_out():
    (line,) = read_batch(batch({"args": 5}), {"script": "s.py", "repo": "r", "base": None})
    assert (line.wanted.script, line.wanted.repo, line.wanted.args) == ("s.py", "r", 5)

"""The arguments of a submit, wherever they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.outcome import Outcome, end_words
from scheduler.wanted import parse_wanted
from shared.base.errors import UsageError


def test_paths_and_texts_are_taken_and_what_is_none_takes_its_default():
    wanted = parse_wanted({"script": Path("f.py"), "repo": Path("r"), "base": None, "args": None}, "run 1")
    assert (wanted.repo, wanted.base, wanted.args, wanted.backend) == ("r", None, None, "app-server")
    assert parse_wanted({"script": "f.py", "repo": "r"}, "run 1").args == {}


@pytest.mark.req("K71")
def test_a_member_that_is_wrong_is_named_with_its_run():
    with pytest.raises(UsageError, match="run 3: repo is missing"):
        parse_wanted({"script": "f.py"}, "run 3")
    with pytest.raises(UsageError, match="run 3: there is no member 'arg'"):
        parse_wanted({"script": "f.py", "repo": "r", "arg": 1}, "run 3")


def test_an_outcome_is_told_in_one_sentence():
    end = {"status": "script_error", "error_kind": "script", "message": "ValueError: no"}
    assert Outcome.of("r1", end).sentence() == "run r1 script_error: ValueError: no"
    assert end_words("failed", "budget") == "failed (budget)" and end_words("completed", None) == "completed"

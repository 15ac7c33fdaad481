"""What options take and refuse."""

from __future__ import annotations

import pytest

from scheduler.cli.options import RunArgument, parse_arguments
from shared.base.errors import UsageError


@pytest.mark.parametrize(("text", "value"), [(None, {}), ('{"goal": "x"}', {"goal": "x"}), ("[1, 2]", [1, 2])])
def test_arguments_are_a_json_value_and_an_empty_object_when_not_given(text, value):
    assert parse_arguments(text, None) == value


@pytest.mark.req("K71")
@pytest.mark.parametrize("text", ["{goal: 1}", "NaN", "", "[" * 100_000])
def test_arguments_that_are_no_json_are_refused_by_name(text):
    with pytest.raises(UsageError, match="--args is not JSON"):
        parse_arguments(text, None)


def test_a_member_that_stands_twice_is_refused_by_name():
    with pytest.raises(UsageError, match="the member 'goal' stands twice"):
        parse_arguments('{"plan": [{"goal": 1, "goal": 2}]}', None)


def test_arguments_come_from_a_file_and_the_refusal_names_it(tmp_path):
    file = tmp_path / "args.json"
    file.write_text('{"goal": "ü"}', encoding="utf-8")
    assert parse_arguments(None, file) == {"goal": "ü"}
    file.write_text("{")
    with pytest.raises(UsageError, match=r"args\.json is not JSON"):
        parse_arguments(None, file)
    with pytest.raises(UsageError, match="cannot be read"):
        parse_arguments(None, tmp_path / "none.json")


def test_arguments_given_twice_are_refused(tmp_path):
    with pytest.raises(UsageError, match="both given"):
        parse_arguments("{}", tmp_path / "args.json")


def test_a_run_id_is_checked_by_its_form():
    assert RunArgument().convert("rabcdefghij23", None, None) == "rabcdefghij23"
    with pytest.raises(UsageError, match="crw flow ps"):
        RunArgument().convert("main", None, None)

"""A script's values as JSON data."""

from __future__ import annotations

import pytest

from scheduler.flow.result import as_data, as_ended, as_evidence
from shared.base.canonical import canonical_bytes
from shared.base.errors import FlowError


@pytest.mark.parametrize("form", [as_data, as_evidence])
def test_the_numbers_that_key_the_items_of_a_join_become_texts(form) -> None:
    assert form({0: {"a": 1}, 1: [{2: "x"}]}) == {"0": {"a": 1}, "1": [{"2": "x"}]}


def test_a_number_and_its_text_as_keys_of_one_object_stay_and_are_refused_as_data() -> None:
    value = as_data({1: "a", "1": "b"})
    assert value == {1: "a", "1": "b"}, "neither item may be lost silently"
    with pytest.raises(TypeError, match="key is a string"):
        canonical_bytes(value)


@pytest.mark.parametrize("form", [as_data, as_evidence])
def test_what_is_nested_too_deeply_or_holds_itself_is_refused_in_words(form) -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    itself: dict[str, object] = {}
    itself["me"] = itself
    for value in (deep, itself):
        with pytest.raises(FlowError, match="nested too deeply for JSON, or holds itself"):
            form(value)


def test_an_argument_that_holds_itself_is_refused_in_words() -> None:
    itself: list[object] = []
    itself.append(itself)
    with pytest.raises(FlowError, match="an argument is nested too deeply for JSON, or holds itself"):
        as_ended(itself)

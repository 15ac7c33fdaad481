"""Which message is the answer."""

from __future__ import annotations

from typing import Any

import pytest

from workers.appserver import guard_schema, pick_answer, unwrap_answer


def _message(text: str, phase: str | None) -> dict[str, Any]:
    return {"type": "agentMessage", "text": text, "phase": phase}


_NOTE = _message("note", "commentary")


@pytest.mark.req("A10", "K23", "S10")
@pytest.mark.parametrize(
    ("items", "answer"),
    [
        ([], None),
        ([_NOTE], None),
        ([_message("A", "final_answer")], "A"),
        ([_message("A", "final_answer"), _message("B", "final_answer"), _NOTE], "B"),
        ([_message("A", "final_answer"), _message("", "final_answer")], ""),
        ([_message("A", None), _message("B", None)], "B"),
        ([_message("A", None), _NOTE], None),
        ([_NOTE, _message("A", None)], None),
        ([_message("A", None), _message("B", "a later word")], None),
        ([{"type": "commandExecution"}, _message("A", None)], "A"),
    ],
)
def test_the_last_final_answer_counts_else_a_message_where_nothing_has_a_phase(
    items: list[dict[str, Any]], answer: str | None
) -> None:
    assert pick_answer(items) == answer


@pytest.mark.req("K12")
def test_two_sends_of_one_schema_are_never_equal() -> None:
    schema = {"type": "object", "description": "a plan"}
    one, two = guard_schema(schema, "c/t1", "n1"), guard_schema(schema, "c/t1", "n2")
    assert one != two
    assert one["description"] == "a plan [send c/t1 n1]"
    assert schema == {"type": "object", "description": "a plan"}


@pytest.mark.req("K13")
def test_a_call_without_a_schema_is_sent_with_the_wrapper() -> None:
    guarded = guard_schema(None, "c/t1", "n1")
    assert guarded["required"] == ["answer"] and guarded["additionalProperties"] is False
    assert "c/t1 n1" in guarded["description"]


@pytest.mark.req("K13")
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": "yes"}', "yes"),
        ("yes", "yes"),
        ('{"answer": 3}', '{"answer": 3}'),
        ('{"answer": "a", "more": 1}', '{"answer": "a", "more": 1}'),
        ("", ""),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_the_wrapper_comes_off_and_plain_text_stays(text: str, answer: str) -> None:
    assert unwrap_answer(text) == answer

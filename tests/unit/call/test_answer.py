"""An answer is kept as the model wrote it, or refused with reasons that the repair turn names."""

import pytest

from workers.call.answer import judge_answer

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "number"}, "s": {"type": "string"}},
    "required": ["n", "s"],
    "additionalProperties": False,
}


@pytest.mark.req("A23", "J38")
def test_a_fitting_answer_is_kept_byte_for_byte():
    text = '{ "s": "\\u0000 \\ud800", "n": 1152921504606846977 }'
    assert judge_answer(text, SCHEMA).result == text.encode()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("no json", "no JSON"),
        ('{"n": 1}', "'s' is a required"),
        ('{"n": "x", "s": ""}', "$.n"),
        ("[" * 100_000, "deep"),
    ],
)
@pytest.mark.req("A23")
def test_an_answer_of_another_form_says_what_is_wrong(text, word):
    judged = judge_answer(text, SCHEMA)
    assert judged.result is None
    assert word in " ".join(judged.errors)


@pytest.mark.req("K13")
@pytest.mark.parametrize(
    ("text", "answer"),
    [('{"answer": "done"}', "done"), ("done", "done"), ('{"answer": 3}', '{"answer": 3}'), ("", "")],
)
def test_without_a_schema_the_answer_is_unwrapped(text, answer):
    assert judge_answer(text, None).result == answer.encode()

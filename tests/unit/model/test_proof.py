"""Verdicts and answers cross the table of questions as plain data."""

from __future__ import annotations

import json

import pytest

from shared.model.proof import PROVEN, Answer, HeldState, NodeState, Verdict


@pytest.mark.req("RULE26", "K37")
def test_an_answer_comes_back_from_its_json_as_it_was() -> None:
    answer = Answer(
        verdicts={"c1": Verdict(False, "foreign_commit", "HEAD is another commit", {"head": "a" * 40})},
        held={"c2": HeldState("b" * 40, False, "moved", "the files are others")},
        nodes={"n": NodeState("/w", "a" * 40, None)},
    )

    assert Answer.from_json(json.loads(json.dumps(answer.to_json()))) == answer


def test_an_answer_names_only_what_is_not_proven() -> None:
    answer = Answer(verdicts={"c1": Verdict(False, "foreign_commit")})

    assert not answer.verdict("c1").proven
    assert answer.verdict("c2") == PROVEN

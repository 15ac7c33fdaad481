"""A review record is one reviewer's judgment of one head; what its own parts speak against is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shared.base.errors import FlowError
from shared.model.outcome import Ended
from shared.model.review import check_review, parse_criteria, parse_findings
from tests.factories import make_ended

HEAD, OTHER = "a" * 40, "b" * 40
BLOCKING = [{"text": "loses rows", "blocking": True}]


def reviewer(**given: Any) -> Ended:
    return make_ended(**{"role": "reviewer", "thread_id": "t", "turn_id": "u", "head": HEAD, **given})


@pytest.mark.req("O22")
@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        (reviewer(kind="verify"), "reviewer is the result of flow.crw.verify; it takes that of flow.agent"),
        (reviewer(role="executor"), "a call of role executor, which writes; a reviewer only reads"),
        (reviewer(status="held", reason="quota"), "a call that ended held (quota); it judged nothing"),
        (reviewer(status="null_model"), "a call that ended null_model; it judged nothing"),
        (reviewer(node_id="b"), "a call on node b, not on node a"),
        (reviewer(head=OTHER), f"a call that read {OTHER}, not {HEAD}; give it head="),
    ],
)
def test_a_call_that_did_not_judge_this_head_makes_no_record(ended: Ended, sentence: str) -> None:
    with pytest.raises(FlowError, match=re.escape(sentence)):
        check_review("a", HEAD, "verified", [], ended)


def test_a_blocking_finding_and_the_verdict_verified_are_no_record() -> None:
    with pytest.raises(FlowError, match="a finding is blocking, so the verdict is not verified"):
        check_review("a", HEAD, "verified", BLOCKING, reviewer())
    check_review("a", HEAD, "needs_changes", BLOCKING, reviewer())
    check_review(None, HEAD, "verified", [{"text": "could be shorter"}], reviewer(head=None))


@pytest.mark.parametrize(
    "findings",
    [
        "slow", {"text": "slow"}, ["slow"], [{}], [{"text": " "}], [{"text": 3}], [{"text": "x", "line": 4}],
        [{"text": "x", "blocking": "yes"}], [{"text": "x", "path": ["a"]}],
    ],
)  # fmt: skip
def test_findings_are_objects_with_a_text(findings: Any) -> None:
    with pytest.raises(ValueError, match="is a list of findings"):
        parse_findings(findings)


def test_findings_are_kept_without_what_was_not_given() -> None:
    given = {"text": "loses rows", "severity": "high", "path": None, "blocking": True}
    assert parse_findings([given]) == [{"text": "loses rows", "severity": "high", "blocking": True}]


def test_criteria_are_known_by_their_digest_in_whatever_form_they_stand() -> None:
    assert parse_criteria({"a": 1, "b": [2]}) == parse_criteria({"b": (2,), "a": 1}) != parse_criteria({"a": 1})
    assert len(parse_criteria("it parses")) == 64


@pytest.mark.parametrize("criteria", ["", "  ", [], {}, 3, None, {"a": object()}, {1: "a"}])
def test_criteria_that_say_nothing_are_refused(criteria: Any) -> None:
    with pytest.raises(ValueError, match=r"^is a (text|JSON value)"):
        parse_criteria(criteria)

"""The result of a call is a function of its rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.base.canonical import canonical_bytes, parse
from shared.journal.encoding import result_digest
from shared.journal.replay import read_call_result
from shared.model.outcome import Status
from shared.model.rows import CallRow
from tests.factories import make_call_row

PREPARED = {"pair": ["m", "low"], "schema": {"type": "object"}}


def rows(*given: tuple[str, dict[str, Any]]) -> list[CallRow]:
    """Rows of one agent call, numbered from 10."""
    return [
        make_call_row(**{"seq": seq, "event": event, "kind": "agent", "detail": {}, "role": "executor", **members})
        for seq, (event, members) in enumerate(given, 10)
    ]


def turn(number: int, **detail: Any) -> list[tuple[str, dict[str, Any]]]:
    """The rows of a turn that was taken and ended."""
    return [
        ("turn_requested", {"detail": detail}),
        ("turn_started", {"turn_id": f"turn{number}"}),
        ("turn_ended", {"turn_id": f"turn{number}", "tokens": 100 * number}),
    ]


STARTED = ("thread_started", {"thread_id": "th", "detail": {"model": "m2", "effort": "high"}})


@pytest.mark.req("J44", "J45", "J47")
def test_an_ended_call_has_its_output_and_the_references_of_its_rows() -> None:
    ended = read_call_result(
        rows(
            ("prepared", {"detail": PREPARED, "host": None}),
            ("placed", {"host": "h1"}),
            ("thread_requested", {}),
            STARTED,
            *turn(1),
            *turn(2, repair=True),
            ("completed", {"result": b'{"a": 1}', "result_digest": "d", "host": "h1", "detail": {"reason": None}}),
        )
    )
    assert ended is not None and ended.ok and ended.output == {"a": 1} and ended.result_digest == "d"
    meta = ended.meta
    assert (meta.role, meta.requested, meta.configured) == ("executor", ("m", "low"), ("m2", "high"))
    assert (meta.thread_id, meta.turn_id, meta.turns, meta.repair, meta.tokens) == ("th", "turn2", 2, True, 300)
    assert (meta.first_seq, meta.last_seq, meta.host) == (10, 20, "h1")


@pytest.mark.req("J44")
@pytest.mark.parametrize("word", ["null_model", "refused", "held", "outcome_unknown", "superseded", "withdrawn"])
def test_a_call_that_did_not_complete_has_its_reason_and_no_output(word: str) -> None:
    ended = read_call_result(rows(("prepared", {}), (word, {"detail": {"reason": "quota"}, "result": b"1"})))
    assert ended is not None and not ended.ok
    assert (ended.status, ended.reason, ended.output) == (Status(word), "quota", None)


@pytest.mark.req("J46")
@pytest.mark.parametrize(
    "event", ["prepared", "thread_requested", "turn_requested", "thread_started", "turn_started", "recovery_cleared"]
)
def test_a_call_that_goes_on_after_its_end_is_open_again(event: str) -> None:
    before = [("prepared", {}), ("held", {"detail": {"reason": "paused"}})]
    assert read_call_result(rows(*before)) is not None
    assert read_call_result(rows(*before, (event, {}))) is None
    assert read_call_result(rows(*before, ("turn_ended", {}))) is not None


@pytest.mark.req("J46")
def test_the_end_of_an_earlier_attempt_is_never_paired_with_a_later_one() -> None:
    first = [("prepared", {"attempt": 0}), STARTED, *turn(1), ("superseded", {"attempt": 0})]
    later = [("prepared", {"attempt": 1, "detail": {"pair": ["n", "low"]}}), ("completed", {"attempt": 1})]
    ended = read_call_result(rows(*first, *later))
    assert ended is not None and ended.status is Status.COMPLETED
    assert (ended.meta.thread_id, ended.meta.turns, ended.meta.tokens) == (None, 0, None)
    assert (ended.meta.first_seq, ended.meta.attempt) == (16, 1)


def test_a_call_without_rows_or_without_an_end_has_no_result() -> None:
    assert read_call_result([]) is None
    assert read_call_result(rows(("prepared", {}), *turn(1))) is None


@pytest.mark.req("J44")
@pytest.mark.parametrize(
    ("schema", "kind", "stored", "output"),
    [
        (None, "agent", b"42", "42"),
        (None, "agent", b'"\xed\xa0\x80', '"\ud800'),
        ({}, "agent", b"42", 42),
        ({}, "agent", b"not json", "not json"),
        (None, "verify", b'{"passed":true}', {"passed": True}),
    ],
)
def test_free_text_stays_text_and_an_answer_to_a_schema_is_a_value(
    schema: Any, kind: str, stored: bytes, output: Any
) -> None:
    call = rows(
        ("prepared", {"detail": {"schema": schema}, "kind": kind}), ("completed", {"result": stored, "kind": kind})
    )
    ended = read_call_result(call)
    assert ended is not None and ended.output == output


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.req("J38", "K04", "RULE14")
@given(VALUES)
def test_an_output_is_the_value_the_text_says_and_digests_alike_however_it_was_written(value: Any) -> None:
    loose = json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")
    tight = json.dumps(value).encode()
    ended = read_call_result(rows(("prepared", {"detail": {"schema": {}}}), ("completed", {"result": loose})))
    assert ended is not None and canonical_bytes(ended.output) == canonical_bytes(parse(tight))
    assert result_digest(loose) == result_digest(tight)


@pytest.mark.req("O22")
def test_a_call_read_the_commit_that_its_directory_began_at() -> None:
    asked = ("prepared", {"detail": PREPARED, "commit_sha": "a" * 40})
    end = ("completed", {"result": b'{"a": 1}'})
    placed = ("placed", {"start_commit": "b" * 40})
    for written, head in [((asked, end), "a" * 40), ((asked, placed, end), "b" * 40)]:
        ended = read_call_result(rows(*written))
        assert ended is not None and ended.meta.head == head

"""What is in an input digest, and what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.flow.digest import NO_JOINS, chain_conversation, chain_joins, input_digest, join_digest

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.req("R19")
@given(results=st.dictionaries(st.text(), json_values, max_size=6), data=st.data())
def test_neither_finishing_order_nor_listing_order_is_in_a_joins_digest(results, data):
    shuffled = dict(data.draw(st.permutations(list(results.items()))))
    assert join_digest(results) == join_digest(shuffled)


def test_a_joins_digest_tells_keys_and_results_apart():
    assert join_digest({"a": 1}) != join_digest({"b": 1})
    assert join_digest({"a": 1}) != join_digest({"a": 2})
    assert join_digest({}) != join_digest({"a": None})


@pytest.mark.req("R07")
def test_each_member_and_the_joins_before_are_in_the_input_digest():
    base = {"prompt": "x", "node": None}
    digests = [
        input_digest("agent", base, NO_JOINS),
        input_digest("commit", base, NO_JOINS),
        input_digest("agent", {**base, "prompt": "x "}, NO_JOINS),
        input_digest("agent", base, chain_joins(NO_JOINS, "d")),
        input_digest("agent", base, chain_joins(chain_joins(NO_JOINS, "d"), "d")),
    ]
    assert len(set(digests)) == 5


@pytest.mark.req("R08")
def test_a_conversation_differs_with_any_of_its_turns_or_results():
    first = chain_conversation(None, "t1", "r1")
    assert chain_conversation(first, "t2", "r2") != chain_conversation(chain_conversation(None, "t1", "rX"), "t2", "r2")
    assert first != chain_conversation(None, "t1", None)

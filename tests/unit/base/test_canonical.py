"""Canonical JSON is total over what a model can say and equals RFC 8785 where that is defined."""

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from shared.base import canonical

_numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
_plain = st.recursive(
    st.none() | st.booleans() | _numbers | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.req("K04", "RULE14")
@given(_plain)
def test_equals_the_standard_where_it_is_defined(value):
    assert canonical.canonical_bytes(value) == rfc8785.dumps(value)


@pytest.mark.req("K04", "RULE14")
@given(_anything)
def test_the_canonical_form_is_a_fixed_point(value):
    once = canonical.canonical_bytes(value)
    assert canonical.canonical_bytes(canonical.parse(once)) == once


@pytest.mark.req("RULE14")
@pytest.mark.parametrize("token", ["1152921504606846976", "1e400", "-1e999", "9" * 5000])
def test_a_number_the_standard_refuses_keeps_its_own_digits(token):
    assert canonical.canonical_bytes(canonical.parse(token)) == token.encode()


@pytest.mark.req("RULE14")
def test_a_lone_surrogate_and_a_nul_have_a_digest():
    value = canonical.parse('{"a":"\\ud800","b":"\\u0000"}')
    assert len(canonical.digest_json(value)) == 64


@pytest.mark.req("K04")
@given(_anything)
def test_stored_text_is_ascii_and_reads_back(value):
    text = canonical.storable(value)
    assert text.isascii() and "\x00" not in text
    assert canonical.from_storable(text) == json.loads(json.dumps(value))


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{", '"' + "[" * 10])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        canonical.parse(text)


def test_deep_nesting_is_refused_not_a_crash():
    with pytest.raises(ValueError, match="deep"):
        canonical.parse("[" * 200_000)

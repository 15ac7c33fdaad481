"""A script's op is checked before anything is written."""

import subprocess
import sys

import pytest

from shared.base.errors import FlowError
from shared.model.ops import parse_arguments

COMMIT = "a" * 40


@pytest.mark.req("O01")
def test_an_op_that_is_not_registered_is_refused_with_the_names_that_are():
    with pytest.raises(FlowError, match=r"no op flow\.crw\.deploy; use one of .*commit"):
        parse_arguments("deploy", {})


def test_noop_is_no_op_of_the_product():
    # In a process of its own: other tests of this one may have registered it.
    look = "from shared.model.ops import OPS; print(sorted(OPS))"
    named = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout
    assert "commit" in named and "noop" not in named


@pytest.mark.parametrize(
    ("op", "arguments", "names"),
    [
        ("commit", {"node": "a"}, "message"),
        ("commit", {"node": "../a", "message": "m"}, "node id"),
        ("commit", {"node": "a", "message": "m", "regions": ["../x"]}, "regions"),
        ("commit", {"node": "a", "message": "m", "regions": "src"}, "regions"),
        ("verify", {"head": "main", "command": "make"}, "head"),
        ("verify", {"head": COMMIT, "command": " "}, "command"),
        ("verify", {"head": COMMIT, "command": "make", "timeout": 3}, "does not take timeout"),
        ("integrate", {"heads": {}}, "heads"),
        ("integrate", {"heads": [COMMIT]}, "heads"),
        ("integrate", {"heads": {"a": COMMIT}, "target": "a..b"}, "target"),
        ("integrate", {"heads": {"a": COMMIT}, "target": "-f"}, "target"),
        ("clock", {"zone": "UTC"}, "no arguments"),
    ],
)
def test_what_an_op_cannot_use_is_refused_by_name(op, arguments, names):
    with pytest.raises(FlowError, match=names):
        parse_arguments(op, arguments)


def test_arguments_are_stored_without_what_was_not_given():
    asked = parse_arguments("commit", {"node": "a", "message": "m", "regions": None})
    assert asked == {"node": "a", "message": "m"}
    assert parse_arguments("integrate", {"heads": {"b": COMMIT}, "target": "crw/r1"})["heads"] == {"b": COMMIT}

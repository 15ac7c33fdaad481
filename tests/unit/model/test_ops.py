"""A script's op is checked before anything is written."""

import subprocess
import sys

import pytest

from shared.base.errors import FlowError
from shared.model.ops import by_name, parse_arguments
from tests.factories import make_ended

COMMIT = "a" * 40
REVIEW = {"head": COMMIT, "criteria": "c", "reviewer": make_ended(role="reviewer"), "verdict": "verified"}


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
        ("commit", {"node": "a", "message": "m", "regions": ["src/\ud800"]}, "half a character"),
        ("verify", {"head": COMMIT, "command": "echo \ud800"}, "half a character"),
        ("integrate", {"heads": {"a": COMMIT}, "target": "x\ud800"}, "half a character"),
        ("clock", {"zone": "UTC"}, "no arguments"),
        ("classify", {}, "needs result="),
        ("classify", {"result": "completed"}, "result is the result of a call"),
        ("tier_step", {"node": "a"}, "needs history="),
        ("tier_step", {"node": "a", "history": make_ended()}, "history is a list of results"),
        ("tier_step", {"node": "a", "history": [{"status": "null_model"}]}, "history is a list of results"),
        ("tier_step", {"node": "a", "history": [], "tiers": []}, "tiers is a list of different roles"),
        ("tier_step", {"node": "a", "history": [], "tiers": ["x", "x"]}, "tiers is a list of different roles"),
        ("tier_step", {"node": "a", "history": [], "tiers": "executor"}, "tiers is a list of different roles"),
        ("review", {**REVIEW, "head": "main"}, "head is a full commit id"),
        ("review", {**REVIEW, "verdict": "fine"}, "verdict is one of verified, needs_changes, not 'fine'"),
        ("review", {**REVIEW, "criteria": ""}, "criteria is a text"),
        ("review", {**REVIEW, "findings": ["slow"]}, "findings is a list of findings"),
        ("review", {**REVIEW, "reviewer": "me"}, "reviewer is the result of a call"),
    ],
)
def test_what_an_op_cannot_use_is_refused_by_name(op, arguments, names):
    with pytest.raises(FlowError, match=names):
        parse_arguments(op, arguments)


def test_arguments_are_stored_without_what_was_not_given():
    asked = parse_arguments("commit", {"node": "a", "message": "m", "regions": None})
    assert asked == {"node": "a", "message": "m"}
    assert parse_arguments("integrate", {"heads": {"b": COMMIT}, "target": "crw/r1"})["heads"] == {"b": COMMIT}


@pytest.mark.req("O06")
def test_the_result_of_a_call_is_stored_as_what_identifies_it_and_without_what_a_fork_renames():
    ended = make_ended(
        status="held", reason="quota", role="executor", node_id="a", turn_id="u", host="h", result_digest="d"
    )
    stored = parse_arguments("classify", {"result": ended})["result"]
    assert stored == {
        "kind": "agent", "role": "executor", "node": "a", "status": "held", "reason": "quota", "turn": "u",
        "result_digest": "d",
    }  # fmt: skip


def test_only_an_op_that_says_so_takes_an_argument_without_its_name():
    assert by_name("classify", [1], {}) == {"result": 1} == by_name("classify", [], {"result": 1})
    for name, given, arguments in [("classify", [1, 2], {}), ("classify", [1], {"result": 1}), ("commit", ["a"], {})]:
        with pytest.raises(FlowError, match=f"flow.crw.{name} takes its arguments by name"):
            by_name(name, given, arguments)

"""Whatever a flow looks like and wherever its scheduler dies, its result is the same and no call opens twice."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.engine.hands import echo
from tests.integration.engine.test_takeover import interrupt

# The script walks a tree that is its argument: ops, sequences and joins in any shape.
SCRIPT = """
async def main(flow, args):
    async def walk(node):
        kind, inner = node
        if kind == "op":
            flow.log(f"op {inner}")
            return (await flow.crw.noop(n=inner)).output
        if kind == "seq":
            return [await walk(child) for child in inner]
        return await flow.parallel({key: walk(child) for key, child in inner.items()})
    return await walk(args)
"""

ops = st.tuples(st.just("op"), st.integers(0, 5))
trees = st.recursive(
    ops,
    lambda inner: (
        st.tuples(st.just("seq"), st.lists(inner, max_size=3))
        | st.tuples(st.just("par"), st.dictionaries(st.text(max_size=3).filter(bool), inner, max_size=3))
    ),
    max_leaves=8,
)


def expected(node):
    kind, inner = node
    if kind == "op":
        return {"did": {"n": inner}}
    if kind == "seq":
        return [expected(child) for child in inner]
    return {key: expected(child) for key, child in inner.items()}


def count(node):
    kind, inner = node
    return 1 if kind == "op" else sum(count(child) for child in (inner if kind == "seq" else inner.values()))


@pytest.mark.req("R03", "R04", "R19", "J47")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees, answered=st.integers(0, 8))
def test_a_run_that_was_taken_over_ends_as_one_that_was_not(field, tree, answered):
    run_id = field.submit(SCRIPT, tree)
    number = itertools.count()

    def some(prepared):
        return echo(prepared) if next(number) < answered else None

    if answered < count(tree):
        # The hand drops the messages after the first few: the run stands, and its scheduler dies there.
        interrupt(field, run_id, some, lambda: len(field.calls(run_id, "completed")) == answered)
    field.drive()
    assert field.end(run_id)["result"] == expected(tree)
    assert len(field.calls(run_id, "prepared")) == len(field.calls(run_id, "completed")) == count(tree)
    assert len(field.events(run_id, "log")) == count(tree)

"""Whatever a flow looks like and wherever its scheduler dies, its result is the same and no call opens twice."""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.planning import plan_resume
from shared.journal import runs
from tests.integration.engine.hands import echo, ended
from tests.integration.engine.test_takeover import interrupt
from tests.integration.engine.verdicts import GONE, Verdicts

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


def recorded_places(field, run_id):
    return sorted({f"{row.path}:{row.position}" for row in field.calls(run_id, "prepared")})


def ran_live(field, run_id, lineage, recorded):
    rows = [*field.calls(run_id, "prepared"), *field.calls(run_id, "hold_cleared")]
    here = {f"{row.path}:{row.position}" for row in rows if row.detail["lineage"] == lineage}
    return sorted(here & set(recorded))


@pytest.mark.req("R20", "R21", "R40", "R52")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tree=trees,
    answered=st.integers(0, 10),
    holds=st.sets(st.integers(0, 8), max_size=2),
    lost=st.sets(st.integers(0, 40), max_size=2),
)
def test_a_resume_runs_live_what_its_plan_says_and_comes_to_the_undisturbed_result(field, tree, answered, holds, lost):
    """Any flow, any crash point, any effects that are gone and calls that were held."""
    run_id = field.submit(SCRIPT, tree)
    number, total = itertools.count(), count(tree)
    field.proofs = Verdicts()

    def some(prepared):
        at = next(number)
        if at >= answered:
            return None
        return ended("held", "quota") if at in holds else echo(prepared)

    whole = answered >= total
    if whole:
        field.drive(some)
        field.resume(run_id)
    else:
        done = lambda: len(field.calls(run_id, "completed")) + len(field.calls(run_id, "held")) == answered  # noqa: E731
        interrupt(field, run_id, some, done)
    recorded = recorded_places(field, run_id)
    # What is open now may have its end by the time it is resumed: only of what had one is anything said to be gone.
    done_places = sorted({f"{row.path}:{row.position}" for row in field.calls(run_id, "completed")})
    verdicts = Verdicts({done_places[at % len(done_places)]: GONE for at in lost if done_places})
    spec = runs.load_spec(field.database, run_id)
    sources = {name: runs.load_source(field.database, digest) for name, digest in spec.sources.items()}
    rows = field.rows(run_id)
    plan = asyncio.run(plan_resume(run_id, spec, sources, rows, verdicts, asked=whole))
    assert field.rows(run_id) == rows
    field.proofs = verdicts
    field.drive()
    assert field.end(run_id)["result"] == expected(tree)
    going_on = [one.to_json()["position"] for one in plan.positions if one.decision == "go_on"]
    assert ran_live(field, run_id, 1, recorded) == sorted([*plan.live(), *going_on])

"""A resume runs live what asks for something else now, and all that rests on it."""

import pytest

from tests.integration.engine.test_suffix import LANES, live_places, superseded, work


@pytest.mark.req("R07", "RULE13")
def test_a_takeover_that_meets_another_input_ends_the_run_and_a_resume_runs_it_live(field):
    script = """
import os
async def main(flow, args):
    one = await flow.crw.noop(n=os.environ["CRW_TEST_COUNT"])
    two = await flow.crw.noop(n="two")
    if os.environ["CRW_TEST_COUNT"] == "1":
        await flow.crw.noop(n="three")
    return [one.output, two.output]
"""
    run_id = field.submit(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRW_TEST_COUNT", "1")
        field.drive()
        patch.setenv("CRW_TEST_COUNT", "2")
        field.resume(run_id)
        field.drive()
    assert field.end(run_id)["result"] == [{"did": {"n": "2"}}, {"did": {"n": "two"}}]
    assert live_places(field, run_id, 1) == ["main:1", "main:2"]
    taken = superseded(field, run_id)
    assert (taken["main:1"]["condition"], taken["main:1"]["differs"]) == ("c", ["arguments"])
    assert taken["main:3"]["condition"] == "a"


@pytest.mark.req("R20")
def test_a_recorded_position_that_the_resumed_script_does_not_come_to_is_taken_back(field):
    script = """
import os
async def main(flow, args):
    await flow.crw.noop(n=1)
    if os.environ["CRW_TEST_COUNT"] == "1":
        await flow.crw.noop(n=2)
    return 1
"""
    run_id = field.submit(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRW_TEST_COUNT", "1")
        field.drive()
        patch.setenv("CRW_TEST_COUNT", "2")
        field.resume(run_id)
        field.drive()
    assert field.end(run_id)["status"] == "completed"
    assert {place: detail["condition"] for place, detail in superseded(field, run_id).items()} == {"main:2": "c"}


@pytest.mark.req("R10", "R11")
def test_facts_from_outside_that_changed_run_what_rests_on_them_live(field):
    run_id = field.submit(LANES)
    plan = {"a": 1, "b": 1}
    field.inputs = lambda kind, asks: {"slice": plan[asks["node"]]} if asks.get("node") else None
    field.drive(work)
    field.resume(run_id)
    plan["b"] = 2
    field.drive(work)
    assert live_places(field, run_id, 1) == ["main/1[b]:1", "main/1[b]:2", "main/1[b]:3", "main:2"]
    assert superseded(field, run_id)["main/1[b]:1"]["condition"] == "d"
    assert superseded(field, run_id)["main/1[b]:1"]["facts"] == {"slice": [1, 2]}


@pytest.mark.req("R17", "R18")
def test_a_join_whose_items_changed_takes_what_comes_after_it_along(field):
    script = """
import os
async def main(flow, args):
    async def lane(n):
        await flow.crw.noop(n=n)
        return os.environ["CRW_TEST_COUNT"]
    await flow.parallel([lane(n) for n in range(2)])
    return (await flow.crw.noop(n="after")).output
"""
    run_id = field.submit(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRW_TEST_COUNT", "1")
        field.drive()
        patch.setenv("CRW_TEST_COUNT", "2")
        field.resume(run_id)
        field.drive()
    assert field.end(run_id)["status"] == "completed"
    assert live_places(field, run_id, 1) == ["main:2"]
    assert superseded(field, run_id)["main:2"]["condition"] == "f"
    assert len(field.events(run_id, "join_settled")) == 2

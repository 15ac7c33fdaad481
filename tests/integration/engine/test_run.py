"""A run goes from its script to exactly one end row."""

import pytest

from shared.model.rows import CallRow
from tests.integration.engine.hands import ended
from tests.integration.engine.scripted import run, script


@pytest.mark.req("J11", "J47", "R09")
def test_a_script_runs_to_its_result(field):
    run_id, end = run(
        field,
        """
flow.phase("plan")
plan = await flow.agent("Plan " + args["goal"], role="architect", label="first", schema=S)
again = await plan.call("And then?", schema=S)
done = await flow.crw.noop(value=again["said"])
flow.log("nearly")
return {"plan": plan, "done": [done], "meta": [plan.meta.tokens, plan.meta.host, plan.status]}
""",
        args={"goal": "x"},
    )
    assert end["status"] == "completed" and "error_kind" not in end
    assert end["result"] == {
        "plan": {"said": "Plan x"},
        "done": [{"did": {"value": "And then?"}}],
        "meta": [7, "h1", "completed"],
    }
    kinds = [row.kind for row in field.rows(run_id) if not isinstance(row, CallRow)]
    assert kinds == ["started", "phase", "log", "finished"]
    first, second, _ = field.calls(run_id, "prepared")
    assert {"input_digest", "prompt_digest", "context", "pair", "options"} <= first.detail.keys()
    assert first.label == "first" and first.detail["context"] == {"kind": "fresh"}
    assert second.detail["context"]["call"] == first.call_id and second.detail["context"]["host"] == "h1"


@pytest.mark.req("J23", "DEF17")
def test_the_first_row_keeps_the_runs_identity(field):
    run_id = field.submit(
        "import helpers\nasync def main(flow, args):\n    return helpers.N\n", {"a": 1}, {"helpers.py": "N = 3\n"}
    )
    field.drive()
    (started,) = field.events(run_id, "started")
    assert started.data["lineage"] == 0 and sorted(started.data["sources"]) == ["flow.py", "helpers.py"]
    assert len(started.data["args_digest"]) == 64 and started.data["backend"] == "app-server"
    assert field.end(run_id)["result"] == 3


@pytest.mark.req("R19")
def test_lanes_run_side_by_side_and_are_known_by_key(field):
    run_id = field.submit(
        script(
            """
async def lane(name):
    await flow.crw.noop(step=1)
    return await flow.crw.noop(name=name)
out = await flow.parallel({name: lane(name) for name in args})
listed = await flow.parallel([lane("x"), lane("y")])
piped = await flow.pipeline([1, 2], lane, key=lambda n: f"n{n}")
inner = await flow.workflow("sub.py", 5)
return [out, listed, piped, inner]
"""
        ),
        ["b", "a"],
        {"sub.py": "async def main(flow, args):\n    return await flow.crw.noop(n=args)\n"},
    )
    field.drive()
    end = field.end(run_id)
    assert end["status"] == "completed", end
    assert list(end["result"][0]) == ["b", "a"]
    assert end["result"][1] == [{"did": {"name": "x"}}, {"did": {"name": "y"}}]
    assert end["result"][2] == {"n1": {"did": {"name": 1}}, "n2": {"did": {"name": 2}}}
    assert end["result"][3] == {"did": {"n": 5}}
    paths = {row.path for row in field.calls(run_id, "prepared")}
    assert {"main/1[b]", "main/1[a]", "main/2[0]", "main/3[n2]", "main/4[sub.py]"} <= paths
    assert [row.position for row in field.events(run_id, "join_settled")] == [1, 2, 3, 4]


def test_an_item_that_raises_does_not_cancel_its_siblings_and_the_join_names_it(field):
    run_id, end = run(
        field,
        """
async def good():
    await flow.crw.noop(n=1)
    return await flow.crw.noop(n=2)
async def bad():
    raise flow.Failed("no way")
try:
    await flow.parallel({"good": good(), "bad": bad()})
except flow.JoinFailed as failed:
    return [str(failed), {key: r.output for key, r in failed.results.items()}]
""",
    )
    sentence, results = end["result"]
    assert sentence == "flow.parallel at main:1: 1 item failed (bad: Failed: no way)"
    assert results == {"good": {"did": {"n": 2}}}
    assert field.events(run_id, "join_settled")[0].data["failed"] == ["bad"]


def test_a_call_that_did_not_complete_is_a_value(field):
    def answer(prepared):
        return ended("refused", "pair_refused", thread_id="t", error="the server has no such pair\nmore of it")

    _, end = run(
        field,
        """
call = await flow.agent("x", role="reviewer", schema=S)
try:
    call["said"]
except flow.CallFailed as failed:
    return [call.ok, call.status, call.reason, call.output, str(failed)]
""",
        answer,
    )
    assert end["result"] == [
        False, "refused", "pair_refused", None,
        "the call of role reviewer ended refused (pair_refused): the server has no such pair",
    ]  # fmt: skip


def test_the_clock_and_sleeping_use_the_databases_time(field):
    run_id, end = run(
        field,
        """
before = await flow.clock()
await flow.sleep(0.3)
after = (await flow.crw.clock())["seconds"]
return after - before.timestamp()
""",
    )
    assert 0.3 <= end["result"] < 10
    kinds = [(row.kind, row.fence) for row in field.calls(run_id, "completed")]
    assert kinds == [("clock", None), ("sleep", None), ("clock", None)]

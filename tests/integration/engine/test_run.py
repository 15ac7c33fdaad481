"""A run goes from its script to exactly one end row."""

import asyncio

import pytest

from scheduler.flow.halt import Stopped
from shared.journal import runs
from shared.model.rows import CallRow
from tests.integration.engine.hands import echo, ended

SCHEMA = (
    'S = {"type": "object", "additionalProperties": False, "required": ["said"], '
    '"properties": {"said": {"type": "string"}}}\n'
)
HEAD = "a" * 40


def script(body, head=SCHEMA):
    return head + "async def main(flow, args):\n" + "".join(f"    {line}\n" for line in body.strip().splitlines())


def run(field, body, answer=echo, head=SCHEMA, args=None, **spec):
    run_id = field.submit(script(body, head), args, **spec)
    field.drive(answer)
    return run_id, field.end(run_id)


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


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("import asyncio\nawait asyncio.gather(flow.crw.noop(), flow.crw.noop())", "flow.parallel"),
        ("await flow.agent('x', role='cook')", "no role 'cook'"),
        ("await flow.agent('x', role='reviewer', effort='huge')", "no effort 'huge'"),
        ("await flow.agent('x', role='reviewer', model='m9')", "no model 'm9'; use one of m1"),
        ("await flow.agent('', role='reviewer')", "not empty"),
        ("await flow.agent('x', role='executor')", "give it node="),
        ("await flow.agent('x', role='executor', node='../x')", "node id"),
        ("await flow.agent('x', role='reviewer', head='main')", "full commit id"),
        ("await flow.agent('x', role='reviewer', schema={'type': 'object'})", "additionalProperties"),
        ("await flow.agent('x', role='reviewer', deadline=0)", "deadline"),
        ("await flow.crw.deploy()", "no op flow.crw.deploy"),
        ("await flow.crw.commit(node='a', msg='x')", "does not take msg"),
        ("await flow.crw.noop(value={1, 2})", "JSON"),
        ("await flow.parallel({'a': 3})", "not a coroutine"),
        ("await flow.parallel(3)", "object of key to coroutine"),
        ("await flow.workflow('gone.py', 1)", "not among the run's sources"),
        ("await flow.sleep(-1)", "flow.sleep takes"),
        ("flow.file('gone.txt')", "does not ship"),
        ("async def lane(): return {1}\nawait flow.parallel({'a': lane()})", "no JSON data"),
    ],
)
@pytest.mark.req("T49", "O01")
def test_what_a_script_asks_wrongly_ends_it_at_its_line_with_nothing_opened(field, body, says):
    run_id, end = run(field, body, extra={"models": ["m1"]})
    assert (end["status"], end["error_kind"]) == ("script_error", "script")
    assert says in end["message"] and "flow.py line" in end["message"]
    # Of two that open at once the first may have been written before the second was refused.
    assert len(field.calls(run_id, "prepared")) <= body.count("gather")


def test_a_script_may_catch_what_it_asked_wrongly_and_go_on(field):
    _, end = run(
        field,
        """
try:
    await flow.agent("x", role="cook")
except flow.FlowError as error:
    return str(error)
""",
    )
    assert end["status"] == "completed" and "no role 'cook'" in end["result"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return {1, 2}", "no JSON data"),
        ("return {(1, 2): 3}", "no JSON data"),
        ("import sys; sys.exit(3)", "sys.exit(3)"),
        ("raise KeyError('k')", "KeyError: 'k' (flow.py line 3)"),
        ("import nowhere", "not shipped with the run"),
    ],
)
def test_a_script_that_goes_wrong_ends_its_run_and_nothing_else(field, body, says):
    _, end = run(field, body)
    assert end["status"] == "script_error" and says in end["message"]


def test_a_script_that_does_not_load_ends_with_its_line(field):
    run_id = field.submit("x = 1 / 0\nasync def main(flow, args): pass\n")
    field.drive()
    assert field.end(run_id)["message"] == "ZeroDivisionError: division by zero (flow.py line 1)"


def test_the_traceback_has_the_scripts_own_frames_and_those_of_failed_items(field):
    _, end = run(
        field,
        """
async def lane():
    await flow.crw.noop()
    return {}["x"]
await flow.parallel({"a": lane()})
""",
    )
    lines = end["traceback"].splitlines()
    assert '  File "flow.py", line 6, in main' in lines and "  item a:" in lines
    assert any('File "flow.py", line 5, in lane' in line for line in lines)
    assert not any("site-packages" in line or "scheduler/" in line for line in lines)


def test_a_call_that_did_not_complete_is_a_value(field):
    def answer(prepared):
        return ended("refused", "pair_refused", thread_id="t")

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
        False, "refused", "pair_refused", None, "the call of role reviewer ended refused (pair_refused)"
    ]  # fmt: skip


@pytest.mark.req("RULE20")
def test_a_second_writing_call_on_a_node_while_one_is_open_is_refused(field):
    _, end = run(
        field,
        """
async def lane():
    return (await flow.agent("x", role="executor", node="a")).ok
try:
    await flow.parallel({"1": lane(), "2": lane()})
except flow.JoinFailed as failed:
    return [list(failed.errors), str(failed.errors["2"]), list(failed.results.values())]
""",
    )
    assert end["result"][0] == ["2"] and "on node a while" in end["result"][1] and end["result"][2] == [True]


@pytest.mark.req("T61", "RULE20")
@pytest.mark.parametrize("event", ["held", "outcome_unknown"])
def test_after_a_held_call_its_node_holds_for_all_that_write_and_for_nobody_else(field, event):
    def answer(prepared):
        return ended(event, "quota", thread_id="t") if prepared.role == "executor" else echo(prepared)

    run_id, end = run(
        field,
        f"""
build = await flow.agent("x", role="executor", node="a")
read = await flow.agent("x", role="reviewer", node="a", head="{HEAD}")
again = await flow.agent("y", role="executor", node="a")
on = await build.call("z")
head = await flow.crw.commit(node="a", message="m")
other = await flow.agent("y", role="executor", node="b")
return [[c.status, c.reason] for c in (build, read, again, on, head, other)]
""",
        answer,
    )
    held = ["held", "node_held (held: quota)" if event == "held" else "recovery_hold"]
    assert end["result"] == [[event, "quota"], ["completed", None], held, held, held, [event, "quota"]]
    assert len(field.calls(run_id, "prepared")) == 3


def test_an_older_conversation_of_a_node_is_not_continued_behind_a_newer_one(field):
    _, end = run(
        field,
        """
one = await flow.agent("x", role="executor", node="a")
two = await flow.agent("y", role="executor", node="a")
await two.call("more")
await one.call("more")
""",
    )
    assert "newer conversation" in end["message"]


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


def test_a_result_that_is_too_large_for_a_row_is_the_scripts_fault(field):
    _, end = run(field, "return 'x' * (70 << 20)")
    assert end["status"] == "script_error" and "cannot be stored" in end["message"]


def test_a_call_that_no_row_can_hold_fails_alone(field):
    _, end = run(
        field,
        """
async def lane(size):
    return (await flow.crw.noop(text="x" * size)).ok
try:
    await flow.parallel({"small": lane(1), "large": lane(70 << 20)})
except flow.JoinFailed as failed:
    return [list(failed.errors), failed.results]
""",
    )
    assert end["result"] == [["large"], {"small": True}]


@pytest.mark.req("RULE28")
def test_cancel_withdraws_what_nobody_claimed_waits_for_the_rest_and_writes_one_end(field):
    run_id = field.submit(
        script(
            """
async def lane(n):
    try:
        await flow.crw.noop(n=n)
    finally:
        await flow.crw.noop(n="after")
await flow.parallel([lane(n) for n in range(3)])
"""
        )
    )
    left = iter([[], None, None])

    async def during(ears):
        while len(field.calls(run_id, "prepared")) < 3 or not field.kept:
            await asyncio.sleep(0.02)
        await asyncio.to_thread(runs.set_stop, field.database, run_id, "cancel")
        ears.hear(run_id, "cancel")
        while not field.calls(run_id, "withdrawn"):
            await asyncio.sleep(0.02)
        assert not field.events(run_id, "finished")
        field.hand_writer.append(field.kept[0], *ended("held", "cancelled"))
        ears.hear(run_id)

    field.drive(lambda prepared: next(left), during)
    end = field.end(run_id)
    assert (end["status"], end["error_kind"], end["by"]) == ("script_error", "cancelled", "operator")
    assert len(field.calls(run_id, "prepared")) == 3
    assert len(field.calls(run_id, "withdrawn")) == 2 and len(field.calls(run_id, "held")) == 1


def test_a_run_cancelled_before_it_was_taken_opens_nothing(field):
    run_id = field.submit(script("await flow.crw.noop()"))
    runs.set_stop(field.database, run_id, "cancel")
    field.drive()
    assert field.end(run_id)["error_kind"] == "cancelled" and not field.calls(run_id, "prepared")


def test_a_stopped_script_opens_nothing_whatever_it_catches(field):
    run_id = field.submit(
        script(
            """
try:
    await flow.crw.noop()
except BaseException:
    flow.log("caught")
    await flow.crw.noop(n="after")
"""
        )
    )

    async def during(ears):
        while not field.calls(run_id, "prepared"):
            await asyncio.sleep(0.02)
        ears.hear(run_id, "cancel")

    field.drive(lambda prepared: None, during)
    assert not issubclass(Stopped, Exception)
    assert field.end(run_id)["error_kind"] == "cancelled" and len(field.calls(run_id, "prepared")) == 1
    assert not field.events(run_id, "log")

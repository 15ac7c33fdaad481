"""Who may write on a node, and which conversation goes on there."""

import pytest

from tests.integration.engine.hands import echo, ended
from tests.integration.engine.scripted import HEAD, run


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

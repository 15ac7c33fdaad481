"""A script that does not come to what was recorded ends its run as a mismatch."""

import pytest

from tests.integration.engine.hands import echo
from tests.integration.engine.test_takeover import interrupt


@pytest.mark.req("R07")
def test_a_script_that_asks_something_else_at_a_recorded_position_ends_as_a_mismatch(field):
    script = """
import helpers
async def main(flow, args):
    await flow.crw.noop(n=helpers.COUNT)
    await flow.crw.noop(n="second")
"""
    run_id = field.submit(script, None, {"helpers.py": "import os\nCOUNT = os.environ['CRW_TEST_COUNT']\n"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRW_TEST_COUNT", "1")
        interrupt(
            field, run_id,
            lambda prepared: None if prepared.detail["arguments"]["n"] == "second" else echo(prepared),
            lambda: len(field.calls(run_id, "prepared")) == 2,
        )  # fmt: skip
        patch.setenv("CRW_TEST_COUNT", "2")
        field.drive(lambda prepared: None)
    end = field.end(run_id)
    assert (end["status"], end["error_kind"]) == ("replay_mismatch", "replay_mismatch")
    assert "at main:1 arguments is not what was recorded" in end["message"]
    assert f"'crw flow resume {run_id}' goes on" in end["message"]
    # What was open is withdrawn: an ended run has no call at work.
    assert [row.position for row in field.calls(run_id, "withdrawn")] == [2]


def test_a_script_that_ends_without_coming_to_what_was_recorded_is_a_mismatch(field):
    script = """
import os
async def main(flow, args):
    await flow.crw.noop(n=1)
    if os.environ["CRW_TEST_COUNT"] == "1":
        await flow.crw.noop(n=2)
        await flow.sleep(1000)
    return 1
"""
    run_id = field.submit(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRW_TEST_COUNT", "1")
        interrupt(field, run_id, echo, lambda: len(field.calls(run_id, "completed")) == 3)
        patch.setenv("CRW_TEST_COUNT", "2")
        field.drive()
    assert "without coming to main:2, main:3" in field.end(run_id)["message"]


def test_a_join_where_a_call_was_recorded_is_a_mismatch(field):
    script = """
import os
async def main(flow, args):
    if os.environ["CRW_TEST_COUNT"] == "1":
        await flow.crw.noop(n=1)
        await flow.sleep(1000)
    async def lane():
        return 1
    await flow.parallel([lane()])
"""
    run_id = field.submit(script)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRW_TEST_COUNT", "1")
        interrupt(field, run_id, echo, lambda: len(field.calls(run_id, "completed")) == 2)
        patch.setenv("CRW_TEST_COUNT", "2")
        field.drive()
    assert "the script opens flow.parallel, recorded is a call" in field.end(run_id)["message"]

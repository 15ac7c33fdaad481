"""What a script does wrongly ends its run, at its line, and nothing else."""

import pytest

from shared.base.errors import RowRefused
from shared.journal import run_leases, runs
from tests.integration.engine.scripted import run, script


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
        ("await flow.agent('x', role='reviewer', deadline=10**30)", "deadline"),
        ("await flow.agent('x', role='reviewer', deadline=10**400)", "deadline"),
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


def test_a_result_that_is_too_large_for_a_row_is_the_scripts_fault(field):
    _, end = run(field, "return 'x' * (70 << 20)")
    assert end["status"] == "script_error" and "cannot be stored" in end["message"]


@pytest.mark.req("J10")
def test_a_run_whose_end_cannot_be_stored_says_the_journal_s_error_and_has_not_ended(field):
    run_id = field.submit(script("return (await flow.crw.noop(n=1)).output"))
    with field.database.engine.begin() as connection:
        connection.exec_driver_sql("alter table flow_events add constraint no_end check (kind <> 'finished')")
    with pytest.raises(RowRefused, match="no_end"):
        field.drive()
    state = runs.run_state(field.database, run_id)
    assert state is not None and state.state == "running" and not field.events(run_id, "finished")
    with field.database.engine.begin() as connection:
        connection.exec_driver_sql("alter table flow_events drop constraint no_end")
    run_leases.give_back(field.database, field.scheduler)
    field.scheduler = field.new_scheduler()
    field.drive()
    assert field.end(run_id)["status"] == "completed" and len(field.calls(run_id, "completed")) == 1


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

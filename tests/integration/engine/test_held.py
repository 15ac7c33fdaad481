"""Held calls go on in place when nothing stands in the way, and give way to a new attempt otherwise."""

import json

import pytest

from shared.base import ids
from shared.journal import runs
from shared.model.rows import NewCallRow
from tests.integration.engine.hands import completed, echo
from tests.integration.engine.test_suffix import live_places, superseded, work
from tests.integration.engine.test_takeover import interrupt
from tests.integration.engine.verdicts import GONE, MOVED, Verdicts

LANE = """
async def main(flow, args):
    build = await flow.agent("build", role="executor", node="a")
    if not build.ok:
        flow.log(f"held: {build.reason}")
        after = await flow.agent("try another", role="executor", node="a")
        return [build.reason, after.reason]
    fix = await build.call("fix")
    return [build.output, fix.output]
"""


def held_once(prepared, state="delivered"):
    if prepared.detail["prompt"] != "build":
        return work(prepared)
    placed = NewCallRow("placed", worktree_kind="fresh")
    started = NewCallRow("thread_started", {"thread": "t1"}, thread_id="t1")
    held = NewCallRow("held", {"reason": "quota"}, held_tree="p", input_state=state, thread_id="t1")
    return [placed, started, held]


def said(prompt):
    return json.dumps({"said": prompt})


def go_on(prepared):
    return completed("built", thread_id="t1", turn_id="turn-9", pending_tree="p2")


@pytest.mark.req("R14", "R40", "R41")
@pytest.mark.parametrize("state", ["delivered", "not_delivered"])
def test_a_held_call_goes_on_in_place_and_what_was_recorded_behind_it_is_taken_back(field, state):
    run_id = field.submit(LANE)
    field.drive(lambda prepared: held_once(prepared, state))
    assert field.end(run_id)["result"] == ["quota", "node_held (held: quota)"]
    field.resume(run_id)
    field.proofs = Verdicts()
    field.drive(lambda prepared: go_on(prepared) if prepared.detail["prompt"] == "build" else work(prepared))
    assert field.end(run_id)["result"] == ['"built"', said("fix")]
    (cleared,) = field.calls(run_id, "hold_cleared")
    (prepared, fix) = [row for row in field.calls(run_id, "prepared") if row.position < 3]
    assert (cleared.call_id, cleared.request_id, cleared.attempt) == (prepared.call_id, prepared.request_id, 1)
    assert dict(cleared.detail) == {
        "lineage": 1, "reason": "quota", "input_state": state, "p_held": "p", "of_attempt": 0,
    }  # fmt: skip
    assert {place: detail["condition"] for place, detail in superseded(field, run_id).items()} == {"main:2": "a"}
    # It is the same worktree and the same conversation: nothing is restored and nothing forks.
    assert "boundary" not in fix.detail and "how" not in fix.detail["context"]


@pytest.mark.req("R47")
def test_a_call_held_again_has_a_second_held_row_and_goes_on_once_more(field):
    run_id = field.submit(LANE)
    field.drive(held_once)
    for lineage in (1, 2):
        field.resume(run_id)
        field.drive(held_once)
        assert field.end(run_id)["result"][0] == "quota"
        assert len([row for row in field.calls(run_id, "held") if row.position == 1]) == lineage + 1
    field.resume(run_id)
    field.drive(lambda prepared: go_on(prepared) if prepared.detail["prompt"] == "build" else work(prepared))
    assert field.end(run_id)["result"] == ['"built"', said("fix")]
    assert [row.attempt for row in field.calls(run_id, "hold_cleared")] == [1, 2, 3]


@pytest.mark.req("R48", "R25", "R42")
def test_a_held_call_whose_files_moved_runs_again_from_the_boundary_and_keeps_what_it_held(field):
    run_id = field.submit(LANE)
    field.drive(held_once)
    field.resume(run_id)
    field.proofs = Verdicts(moved={"main:1": MOVED})
    field.drive(work)
    assert field.end(run_id)["result"] == [said("build"), said("fix")]
    taken = superseded(field, run_id)
    assert {place: detail["condition"] for place, detail in taken.items()} == {"main:1": "g", "main:2": "a"}
    assert "its files have changed since" in taken["main:1"]["sentence"]
    again = [row for row in field.calls(run_id, "prepared") if row.position == 1][-1]
    (held,) = [row for row in field.calls(run_id, "held") if row.position == 1]
    assert again.detail["boundary"]["held"] == [{"call": held.call_id, "tree": "p"}]
    assert again.request_id != held.request_id


@pytest.mark.req("R40", "R41")
def test_a_held_op_goes_on_under_its_own_request(field):
    script = """
async def main(flow, args):
    return (await flow.crw.noop(n=1)).reason
"""
    run_id = field.submit(script)
    field.drive(lambda prepared: [NewCallRow("held", {"reason": "worker_stopped"})])
    field.resume(run_id)
    field.drive()
    assert field.end(run_id)["result"] is None
    (prepared,) = field.calls(run_id, "prepared")
    (done,) = field.calls(run_id, "completed")
    assert (done.request_id, done.attempt) == (prepared.request_id, 1)


@pytest.mark.req("R41", "J24")
def test_a_paused_run_is_opened_again_by_one_of_many_who_ask(field):
    run_id = field.submit(LANE)
    interrupt(field, run_id, lambda prepared: None, lambda: field.calls(run_id, "prepared"))
    runs.set_stop(field.database, run_id, "pause")
    state = runs.run_state(field.database, run_id)
    answers = [runs.reopen(field.database, state) for _ in range(3)]
    assert [answer is None for answer in answers] == [False, True, True]
    assert answers[0].next_seq == state.next_seq
    field.drive(work)
    assert field.end(run_id)["status"] == "completed"
    assert [row.data["how"] for row in field.events(run_id, "started")] == ["start", "resume"]


@pytest.mark.req("RULE24")
def test_a_run_that_was_set_aside_is_taken_again_when_somebody_resumes_it(field):
    run_id = field.submit("async def main(flow, args):\n    return 1\n")
    with field.database.transaction() as connection:
        connection.exec_driver_sql("update flow_runs set state = 'quarantined', takes_without_progress = 3")
    field.resume(run_id)
    field.drive(echo)
    assert field.end(run_id)["result"] == 1


@pytest.mark.req("R20", "K38")
def test_a_call_whose_host_was_lost_gets_its_next_attempt_in_the_run_that_waits_for_it(field):
    run_id = field.submit(LANE)

    def lose_first(prepared):
        if prepared.attempt == 0 and prepared.detail["prompt"] == "fix":
            placed = NewCallRow("placed", worktree_kind="continued")
            return [placed, NewCallRow("superseded", {"reason": "host_lost"})]
        return work(prepared)

    field.drive(lose_first)
    assert field.end(run_id)["result"] == [said("build"), said("fix")]
    first, again = [row for row in field.calls(run_id, "prepared") if row.position == 2]
    assert again.attempt == 1 and again.request_id != first.request_id
    assert again.detail["boundary"]["because"] == {"reason": "host_lost"}
    build = next(row for row in field.calls(run_id, "completed") if row.position == 1)
    assert (again.detail["boundary"]["tree"], again.detail["boundary"]["lineage"]) == (build.pending_tree, 0)
    assert live_places(field, run_id, 0) == ["main:1", "main:2", "main:2"]


@pytest.mark.req("R34", "K38")
def test_a_reading_call_whose_host_was_lost_forks_the_conversation_that_may_hold_its_turn(field):
    run_id = field.submit("""
async def main(flow, args):
    plan = await flow.agent("plan", role="architect")
    return (await plan.call("more")).output
""")

    def lose_first(prepared):
        if prepared.attempt == 0 and prepared.detail["prompt"] == "more":
            return [NewCallRow("superseded", {"reason": "host_lost"})]
        return work(prepared)

    field.drive(lose_first)
    first, again = [row for row in field.calls(run_id, "prepared") if row.position == 2]
    assert "how" not in first.detail["context"] and again.detail["context"]["how"] == "fork"
    assert again.detail["context"]["through_turn"] == first.detail["context"]["through_turn"]


@pytest.mark.req("O05")
def test_every_attempt_of_a_call_whose_hosts_are_lost_one_after_the_other_is_a_request_of_its_own(field):
    run_id = field.submit(LANE)

    def lose(prepared):
        lost = prepared.detail["prompt"] == "fix" and prepared.attempt in (0, 1, 4)
        return [NewCallRow("superseded", {"reason": "host_lost"})] if lost else work(prepared)

    field.drive(lose)
    field.resume(run_id)
    field.proofs = Verdicts({"main:2": GONE})
    field.drive(lose)
    field.resume(run_id)
    field.drive(lose)
    prepared = [row for row in field.calls(run_id, "prepared") if row.position == 2]
    assert [row.attempt for row in prepared] == [0, 1, 2, 3, 4, 5]
    assert [row.request_id for row in prepared] == [ids.request_id(run_id, prepared[0].call_id, n) for n in range(6)]


@pytest.mark.req("R48", "RULE12", "R25")
@pytest.mark.parametrize("reason", ["host_lost", "held_state_changed"])
def test_a_held_call_that_cannot_go_on_where_it_stood_runs_again_in_the_same_resume(field, reason):
    run_id = field.submit(LANE)
    field.drive(held_once)
    field.resume(run_id)
    field.proofs = Verdicts()

    def not_there(prepared):
        if prepared.attempt == 0 and prepared.detail["prompt"] == "build":
            return [NewCallRow("held", {"reason": reason, "error": "it is not there"})]
        return work(prepared)

    field.drive(not_there)
    assert field.end(run_id)["result"] == [said("build"), said("fix")]
    build, again = [row for row in field.calls(run_id, "prepared") if row.position == 1]
    assert (again.attempt, again.request_id != build.request_id) == (2, True)
    taken = superseded(field, run_id)["main:1"]
    assert taken["condition"] == "g" and "it is not there" in taken["sentence"]
    assert again.detail["boundary"]["held"] == [{"call": build.call_id, "tree": "p"}]
    assert again.detail["boundary"]["because"]["condition"] == "g"

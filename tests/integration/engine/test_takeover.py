"""A run whose scheduler is gone goes on: replay, attach, live."""

import asyncio

import pytest

from scheduler.flow.digest import NO_JOINS, input_digest
from scheduler.flow.services import RunServices
from scheduler.run import drive_run
from shared.base import ids
from shared.journal import run_leases, runs
from shared.journal.append import CallRows, EndedCall, OpenCall, RunRows
from shared.journal.open_calls import held_still
from shared.model.rows import CallRow, NewCallRow, NewEventRow
from tests.integration.engine.hands import Ears, Hand, completed, echo, ended

SCRIPT = """
async def main(flow, args):
    flow.phase("one")
    first = await flow.crw.noop(n=1)
    flow.log("first done")
    when = await flow.clock()

    async def lane(n):
        a = await flow.crw.noop(lane=n, step="a")
        b = await flow.crw.noop(lane=n, step="b")
        return [a, b]

    lanes = await flow.parallel([lane(n) for n in range(3)])
    last = await flow.crw.noop(n="last")
    return [first.output, when.isoformat(), lanes, last]
"""


def interrupt(field, run_id, answer, until):
    """Drive a run until `until()` holds, then leave it as a dying scheduler would; then give it back."""

    async def scene():
        ears = Ears()
        taken = field.take()
        hand = Hand(field, answer, ears.hear)
        run = asyncio.create_task(drive_run(taken, field.services(hand, ears)))
        while not until():
            await asyncio.sleep(0.02)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await asyncio.to_thread(hand.close)

    asyncio.run(scene())
    run_leases.give_back(field.database, field.scheduler)
    field.scheduler = field.new_scheduler()


def lane_b_is_open(field, run_id):
    opened = field.calls(run_id, "prepared")
    return len([row for row in opened if row.detail["arguments"].get("step") == "b"]) == 3


@pytest.mark.req("R03", "R15", "J47")
def test_another_scheduler_replays_what_is_recorded_and_attaches_to_what_is_open(field):
    run_id = field.submit(SCRIPT)

    def slow(prepared):
        return [] if prepared.detail["arguments"].get("step") == "b" else echo(prepared)

    interrupt(field, run_id, slow, lambda: lane_b_is_open(field, run_id) and len(field.kept) == 3)
    before = field.rows(run_id)

    async def during(ears):
        for claim in field.kept:
            (prepared,) = [row for row in before if isinstance(row, CallRow) and row.call_id == claim.call_id]
            field.hand_writer.append(claim, *completed({"did": prepared.detail["arguments"]}))
            ears.hear(run_id)

    field.drive(echo, during)
    end = field.end(run_id)
    assert end["status"] == "completed", end
    assert end["result"][2][1][1] == {"did": {"lane": 1, "step": "b"}}
    rows = field.rows(run_id)
    assert rows[: len(before)] == before
    assert [row.data["lineage"] for row in field.events(run_id, "started")] == [0, 1]
    # Nothing is said twice: each call opened once, each note, the clock and the join once.
    assert len(field.calls(run_id, "prepared")) == 8
    assert len(field.calls(run_id, "completed")) == 9
    assert [len(field.events(run_id, kind)) for kind in ("phase", "log", "join_settled", "finished")] == [1, 1, 1, 1]


@pytest.mark.req("O06")
def test_a_resumed_script_gets_the_recorded_time_again_and_does_not_sleep_twice(field):
    script = """
async def main(flow, args):
    before = await flow.clock()
    await flow.sleep(0.2)
    after = (await flow.crw.clock())["seconds"]
    return [before.isoformat(), after]
"""
    run_id = field.submit(script)
    field.drive()
    first = field.end(run_id)["result"]
    field.resume(run_id)
    field.drive()
    assert field.end(run_id)["result"] == first
    assert [row.kind for row in field.calls(run_id, "completed")] == ["clock", "sleep", "clock"]


@pytest.mark.req("J47")
def test_calls_that_ended_while_no_scheduler_looked_replay(field):
    run_id = field.submit(SCRIPT)

    def slow(prepared):
        return [] if prepared.detail["arguments"].get("step") == "b" else echo(prepared)

    interrupt(field, run_id, slow, lambda: len(field.kept) == 3)
    for claim in field.kept:
        field.hand_writer.append(claim, *completed({"b": claim.path}))
    field.drive()
    assert [lane[1] for lane in field.end(run_id)["result"][2]] == [{"b": f"main/3[{n}]"} for n in range(3)]


@pytest.mark.req("RULE47")
def test_a_scheduler_that_lost_the_run_writes_nothing_and_runs_no_except_branch(field):
    script = """
async def main(flow, args):
    try:
        await flow.crw.noop(n=1)
    except BaseException:
        flow.log("caught")
        await flow.crw.noop(n="never")
"""
    run_id = field.submit(script)

    async def scene():
        ears = Ears()
        taken = field.take()
        services = RunServices(field.database, field.writer, lambda p: None, lambda run_id: None, ears)
        run = asyncio.create_task(drive_run(taken, services))
        while not field.calls(run_id, "prepared"):
            await asyncio.sleep(0.02)
        await asyncio.to_thread(run_leases.give_back, field.database, field.scheduler)
        (other,) = await asyncio.to_thread(run_leases.take, field.database, field.new_scheduler(), 1)
        await asyncio.wrap_future(
            field.writer.submit(RunRows(other.lease, (NewEventRow("log", {"message": "other"}),)))
        )
        # The zombie notices at its next row: make it write one.
        lost = field.writer.submit(RunRows(taken.lease, (NewEventRow("log", {"message": "zombie"}),)))
        await asyncio.wait({asyncio.wrap_future(lost)})
        assert lost.exception() is not None
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    asyncio.run(scene())
    assert [row.data["message"] for row in field.events(run_id, "log")] == ["other"]
    assert len(field.calls(run_id, "prepared")) == 1 and not field.events(run_id, "finished")


@pytest.mark.req("RULE47")
def test_a_scheduler_that_lets_a_run_go_writes_nothing_while_the_script_unwinds(field):
    script = """
async def main(flow, args):
    try:
        await flow.crw.noop(n=1)
    except BaseException:
        flow.log("caught")
        await flow.crw.noop(n="never")
"""
    run_id = field.submit(script)
    interrupt(field, run_id, lambda prepared: None, lambda: field.calls(run_id, "prepared"))
    field.writer.flush()
    assert len(field.rows(run_id)) == 2
    field.drive()
    assert field.end(run_id)["status"] == "completed" and not field.events(run_id, "log")


@pytest.mark.req("RULE47")
def test_a_refused_row_ends_the_drive_at_once(field):
    script = """
async def main(flow, args):
    try:
        await flow.crw.noop(n=1)
        await flow.crw.noop(n=2)
    except BaseException:
        await flow.crw.noop(n="never")
"""
    run_id = field.submit(script)
    taken = field.take()

    def answer(prepared):
        # Between the first and the second position the run is taken away.
        run_leases.give_back(field.database, field.scheduler)
        run_leases.take(field.database, field.new_scheduler(), 1)
        return echo(prepared)

    asyncio.run(field.driving(taken, answer))
    assert len(field.calls(run_id, "prepared")) == 1 and not field.events(run_id, "finished")


def test_ten_thousand_positions_of_one_run_replay_without_a_row(field):
    script = """
async def main(flow, args):
    async def lane(n):
        for step in range(10):
            await flow.crw.noop(n=n, step=step)
        return n
    out = await flow.parallel([lane(n) for n in range(1000)])
    await flow.crw.noop(n="last")
    return len(out)
"""
    run_id = field.submit(script)
    taken = field.take()
    for lane in range(0, 1000, 100):
        ended = tuple(recorded_noop(run_id, n, step) for n in range(lane, lane + 100) for step in range(10))
        field.writer.submit(RunRows(taken.lease, ended=ended)).result()
    asyncio.run(field.driving(taken))
    assert field.end(run_id)["result"] == 1000
    # started, join_settled, prepared and completed of the last, finished
    assert len(field.rows(run_id)) == 10_000 + 5


def recorded_noop(run_id, lane, step):
    """The rows of an op as an earlier process left them, in one."""
    path, position = f"main/1[{lane}]", step + 1
    call = ids.call_id(run_id, path, position)
    asks = {"op": "noop", "arguments": {"n": lane, "step": step}, "node": None}
    row = NewCallRow("completed", {**asks, "input_digest": input_digest("noop", asks, NO_JOINS)}, result=b"{}")
    return EndedCall(call, path, position, "noop", None, ids.request_id(run_id, call), 0, row)


@pytest.mark.req("J20", "J47")
def test_a_script_error_that_waits_for_open_calls_is_the_end_whoever_writes_it(field):
    script = """
import asyncio
async def main(flow, args):
    asyncio.create_task(flow.crw.noop(n=1))
    await asyncio.sleep(0.2)
    raise ValueError("the script's own fault")
"""
    run_id = field.submit(script)
    interrupt(field, run_id, lambda prepared: [], lambda: field.events(run_id, "ending"))
    assert not field.events(run_id, "finished")
    # The stop of the dead one says only that the run is over.
    runs.set_stop(field.database, run_id, "cancel")

    async def during(ears):
        field.hand_writer.append(field.kept[0], *ended("held", "cancel"))
        ears.hear(run_id)

    field.drive(lambda prepared: [], during)
    end = field.end(run_id)
    assert (end["status"], end["error_kind"]) == ("script_error", "script")
    assert "the script's own fault" in end["message"] and "line 6" in end["message"]
    assert [len(field.events(run_id, kind)) for kind in ("ending", "finished", "cancel_waiting")] == [1, 1, 0]


@pytest.mark.req("J15", "J17")
def test_an_op_that_is_named_as_waited_for_ends_behind_that_row_however_close(field):
    run_id = field.submit("async def main(flow, args):\n    await flow.crw.noop(n=1)\n")
    taken = field.take()
    call = ids.call_id(run_id, "main", 1)
    request = ids.request_id(run_id, call)
    prepared = NewCallRow("prepared", {"op": "noop"})
    opened = OpenCall(call, "main", 1, "noop", None, "op", request, 0, prepared)
    field.writer.submit(RunRows(taken.lease, opens=(opened,))).result()
    claim = field.claim(call, request)
    with held_still(field.database, run_id) as calls:
        assert [call.call_id for call in calls] == [claim.call_id]
        end = field.hand_writer.submit(CallRows(claim, tuple(ended("held", "cancel"))))
        # The op is over, and its row has to wait until the other stands.
        field.writer.submit(RunRows(taken.lease, (NewEventRow("cancel_waiting", {"calls": []}),))).result()
        assert not end.done()
    end.result(10)
    kinds = [getattr(row, "kind", "") if not isinstance(row, CallRow) else row.event for row in field.rows(run_id)]
    assert kinds[-2:] == ["cancel_waiting", "held"]

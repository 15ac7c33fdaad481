"""What a resume leaves unread decides nothing: with it and without it come the same decisions and the same results."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import pytest

from scheduler.planning import plan_resume
from shared.journal import runs, slim
from shared.journal.replay import read_call_result
from shared.journal.slim import load_slim
from shared.model.rows import CallRow, NewCallRow, Row
from tests.integration.engine.hands import Field, completed, ended
from tests.integration.engine.verdicts import GONE, MOVED, Verdicts

# How the agents of the lanes end; `unsigned` completes with rows whose end does not name its turn.
ENDS = ("signed", "unsigned", "held", "null_model", "outcome_unknown")
FLOW = """
async def main(flow, args):
    async def lane(end):
        built = await flow.agent(end, role="executor", node=end)
        if built.ok:
            await built.call("go on")
        return (await flow.crw.noop(end=end)).output
    await flow.parallel({end: lane(end) for end in args})
    await flow.crw.noop(end="all")
"""
SEEN = {"turn_started", "user_message_seen", "turn_ended", "push_requested"}


def answer(prepared: CallRow) -> Sequence[NewCallRow]:
    """The rows that a worker writes on its way to each end."""
    if prepared.kind != "agent":
        return [NewCallRow("command_started"), NewCallRow("command_ended"), *completed({"did": "it"})]
    end = prepared.node_id or ""
    known = {"thread_id": f"thread-{end}"}
    turned = {"turn_id": f"turn-{prepared.call_id}"}
    rows = [
        NewCallRow("placed", {"host": "h1"}, worktree_kind="fresh", worktree_path=f"/w/{end}", allocation=1),
        NewCallRow("thread_requested"),
        NewCallRow("thread_started", {"model": "m2", "effort": "high"}, **known),
        NewCallRow("turn_requested", {"repair": False}, operation=f"{prepared.call_id}/t1", **known),
        NewCallRow("turn_started", **known, **turned),
        NewCallRow("user_message_seen", **turned),
        NewCallRow("turn_ended", {"status": "completed"}, tokens=11, **known, **turned),
        NewCallRow("push_requested", {"ref": "refs/x"}),
    ]
    if end == "signed":
        return [*rows, *completed({"said": end}, tokens=11, pending_tree="t", **known, **turned)]
    if end == "unsigned":
        return [*rows, *completed({"said": end}, pending_tree="t")]
    columns = {"held_tree": "t", **known} if end == "held" else known
    return [*rows, *ended(end, "quota", **columns)]


def decisions(field: Field, run_id: str, rows: Sequence[Row], verdicts: Verdicts) -> list[dict[str, object]]:
    spec = runs.load_spec(field.database, run_id)
    sources = {name: runs.load_source(field.database, digest) for name, digest in spec.sources.items()}
    plan = asyncio.run(plan_resume(run_id, spec, sources, rows, verdicts))
    return [{"end": plan.end}, *(position.to_json() for position in plan.positions)]


def calls_of(rows: Sequence[Row]) -> dict[str, list[CallRow]]:
    found: dict[str, list[CallRow]] = defaultdict(list)
    for row in rows:
        if isinstance(row, CallRow):
            found[row.call_id].append(row)
    return found


@pytest.mark.req("R03", "R04", "RULE41")
@pytest.mark.parametrize("page", [1, 7, 1000])
def test_what_is_left_unread_changes_no_decision_and_no_result(
    field: Field, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(slim, "_PAGE_ROWS", page)
    run_id = field.submit(FLOW, list(ENDS))
    field.drive(answer)
    # A second time: rows of superseded attempts stand in front of those that count.
    field.proofs = Verdicts({"main/1[signed]:2": GONE}, {"main/1[held]:1": MOVED})
    field.resume(run_id)
    field.drive(answer)
    whole, read = field.rows(run_id), load_slim(field.database, run_id)

    by_seq = {row.seq: row for row in whole}
    assert all(by_seq[row.seq] == row for row in read) and [row.seq for row in read] == sorted(row.seq for row in read)
    left_out = [by_seq[seq] for seq in sorted(by_seq.keys() - {row.seq for row in read})]
    assert all(isinstance(row, CallRow) for row in left_out)
    agents = [row for row in left_out if isinstance(row, CallRow) and row.kind == "agent"]
    assert {row.event for row in left_out} - SEEN <= {"command_started", "command_ended"}
    assert {row.node_id for row in agents} <= {"signed"}
    if page == 1000:
        assert {row.event for row in agents} == SEEN and len(left_out) > len(agents)

    for verdicts in (
        Verdicts(),
        Verdicts({f"main/1[{end}]:1": GONE for end in ENDS}),
        Verdicts({"main/1[signed]:2": GONE}, {"main/1[held]:1": MOVED}),
    ):
        assert decisions(field, run_id, read, verdicts) == decisions(field, run_id, whole, verdicts)
    slim_calls, calls = calls_of(read), calls_of(whole)
    assert slim_calls.keys() == calls.keys()
    for call, rows in calls.items():
        assert read_call_result(slim_calls[call]) == read_call_result(rows)


@pytest.mark.req("RULE17")
def test_a_slim_load_ends_at_the_first_gap(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slim, "_PAGE_ROWS", 4)
    run_id = field.submit(FLOW, ["signed"])
    field.drive(answer)
    gap = next(row.seq for row in field.calls(run_id, "turn_requested"))
    with field.database.statement() as connection:
        connection.exec_driver_sql("delete from flow_calls where run_id = %s and seq = %s", (run_id, gap))
    assert [row.seq for row in load_slim(field.database, run_id)] == list(range(1, gap))

"""What a resume runs live is exactly the suffix, and everything of it is taken back before anything of it opens."""

import asyncio

import pytest

from shared.base import ids
from shared.journal import stopping
from shared.model.rows import CallRow, NewCallRow
from tests.integration.engine.hands import completed, echo, ended
from tests.integration.engine.test_takeover import interrupt
from tests.integration.engine.verdicts import GONE, Verdicts

LANES = """
async def main(flow, args):
    async def lane(n):
        build = await flow.agent(f"build {n}", role="executor", node=n)
        head = await flow.crw.commit(node=n, message="m", regions=["a"])
        fix = await build.call(f"fix {n}")
        flow.log(f"lane {n} done")
        return [build.output, head.output, fix.output]
    lanes = await flow.parallel({n: lane(n) for n in ("a", "b")})
    last = await flow.crw.noop(n="last")
    return [lanes, last.output]
"""


def work(prepared):
    """As workers do: a placed worktree, a thread, a tree; a commit names what it made."""
    call = prepared.call_id[1:7] + str(prepared.attempt)
    if prepared.kind == "commit":
        out = {"commit": f"commit-{call}", "tree": f"tree-{call}", "changed": True}
        return completed(out, commit_sha=out["commit"])
    if prepared.kind != "agent":
        return echo(prepared)
    context = prepared.detail["context"]
    fork = context.get("how") == "fork"
    thread = f"thread-{call}" if fork or context["kind"] == "fresh" else context["thread"]
    placed = NewCallRow("placed", worktree_kind="restore" if "boundary" in prepared.detail else "fresh")
    said = completed(
        {"said": prepared.detail["prompt"]}, thread_id=thread, turn_id=f"turn-{call}", pending_tree=f"tree-{call}"
    )
    return [placed, *said]


def live_places(field, run_id, lineage):
    rows = [*field.calls(run_id, "prepared"), *field.calls(run_id, "hold_cleared")]
    return sorted(f"{row.path}:{row.position}" for row in rows if row.detail["lineage"] == lineage)


def superseded(field, run_id):
    return {f"{row.path}:{row.position}": row.detail for row in field.calls(run_id, "superseded")}


@pytest.mark.req("R12", "R20", "R21", "R05", "R13", "R17")
def test_an_effect_that_is_gone_makes_the_suffix_of_its_path_and_no_sibling_s(field):
    run_id = field.submit(LANES)
    field.drive(work)
    first = field.end(run_id)["result"]
    field.resume(run_id)
    field.proofs = Verdicts({"main/1[a]:2": GONE})
    field.drive(work)
    assert field.end(run_id)["status"] == "completed"
    assert field.end(run_id)["result"][0]["b"] == first[0]["b"]
    assert live_places(field, run_id, 1) == ["main/1[a]:2", "main/1[a]:3", "main:2"]
    taken = superseded(field, run_id)
    assert {place: detail["condition"] for place, detail in taken.items()} == {
        "main/1[a]:2": "e", "main/1[a]:3": "a", "main:2": "f",
    }  # fmt: skip
    assert all(detail["reason"] == "superseded_by_resume" and detail["lineage"] == 1 for detail in taken.values())
    # All of it in one member: the rows stand side by side, and nothing of the suffix opened before.
    seqs = [row.seq for row in field.calls(run_id, "superseded")]
    assert max(seqs) - min(seqs) == 2
    assert all(row.seq > max(seqs) for row in field.calls(run_id, "prepared") if row.detail["lineage"] == 1)
    # The lane's last words are said again, the sibling's are not.
    said = [row.data["message"] for row in field.events(run_id, "log")]
    assert sorted(said) == ["lane a done", "lane a done", "lane b done"]


@pytest.mark.req("O05", "O09", "R21")
def test_each_attempt_of_the_suffix_has_a_request_of_its_own(field):
    run_id = field.submit(LANES)
    field.drive(work)
    field.proofs = Verdicts({"main/1[a]:2": GONE})
    for _ in range(2):
        field.resume(run_id)
        field.drive(work)
    requests = [
        row.request_id for row in field.calls(run_id, "prepared") if row.path == "main/1[a]" and row.position == 2
    ]
    call = ids.call_id(run_id, "main/1[a]", 2)
    assert requests == [ids.request_id(run_id, call, number) for number in range(3)]


@pytest.mark.req("R24", "R26", "R27", "R30", "R31")
def test_the_suffix_s_first_executor_call_asks_for_the_boundary_and_its_conversation_forks(field):
    run_id = field.submit(LANES)
    field.drive(work)
    commit = next(row for row in field.calls(run_id, "completed") if row.path == "main/1[a]" and row.kind == "commit")
    build = next(row for row in field.calls(run_id, "completed") if row.path == "main/1[a]" and row.position == 1)
    field.resume(run_id)
    field.proofs = Verdicts({"main/1[a]:3": GONE})
    field.drive(work)
    (fix,) = [row for row in field.calls(run_id, "prepared") if row.detail["lineage"] == 1 and row.kind == "agent"]
    boundary = fix.detail["boundary"]
    assert (boundary["lineage"], boundary["commit"]) == (1, commit.commit_sha)
    # The commit carries no call's tree here, so the build's own tree is laid over it.
    assert (boundary["tree"], boundary["tree_of"]) == (build.pending_tree, build.call_id)
    assert boundary["because"]["condition"] == "a" or boundary["because"]["condition"] == "e"
    assert fix.detail["context"]["how"] == "fork" and fix.detail["context"]["thread"] == build.thread_id
    # In the next resume all of it replays: the digest knows nothing of forks and boundaries.
    field.resume(run_id)
    field.proofs = Verdicts()
    field.drive(work)
    assert live_places(field, run_id, 2) == []


@pytest.mark.req("R01", "R03", "O08")
def test_a_resume_of_a_completed_run_asks_nobody_and_comes_to_the_same_result(field):
    run_id = field.submit(LANES)
    field.drive(work)
    first = field.end(run_id)
    before = len(field.rows(run_id))
    field.resume(run_id)
    field.drive(lambda prepared: pytest.fail("a call was opened"))
    assert field.end(run_id) == first
    assert len(field.rows(run_id)) == before + 2
    assert [row.data["how"] for row in field.events(run_id, "started")] == ["start", "resume"]


@pytest.mark.req("R20", "R21")
def test_a_scheduler_that_dies_between_superseding_and_opening_leaves_the_suffix_to_the_next(field):
    run_id = field.submit(LANES)
    field.drive(work)
    field.resume(run_id)
    field.proofs = Verdicts({"main/1[a]:1": GONE})
    interrupt(field, run_id, lambda prepared: None, lambda: field.calls(run_id, "superseded"))
    # Nobody claimed what the first resume opened, if it came so far; the effect is said to be gone no more.
    field.proofs = Verdicts()
    field.drive(work)
    assert field.end(run_id)["status"] == "completed"
    assert {place for place in superseded(field, run_id)} == {
        "main/1[a]:1", "main/1[a]:2", "main/1[a]:3", "main:2",
    }  # fmt: skip
    opened = [row for row in field.calls(run_id, "prepared") if row.attempt == 1]
    assert sorted(f"{row.path}:{row.position}" for row in opened) == [
        "main/1[a]:1", "main/1[a]:2", "main/1[a]:3", "main:2",
    ]  # fmt: skip


@pytest.mark.req("R22", "RULE10")
def test_a_call_still_at_work_in_the_suffix_is_told_to_stop_and_ended_before_anything_of_it_opens(field):
    run_id = field.submit(LANES)

    def busy(prepared):
        return [] if prepared.path == "main/1[a]" and prepared.position == 3 else work(prepared)

    interrupt(field, run_id, busy, lambda: field.kept and len(field.calls(run_id, "completed")) == 5)
    (claim,) = field.kept
    field.proofs = Verdicts({"main/1[a]:1": GONE})

    async def during(ears):
        while not (told := stopping.told_to_stop(field.database, [claim.call_id])):
            await asyncio.sleep(0.02)
        assert told == [(claim.call_id, "superseded_by_resume")]
        assert not field.calls(run_id, "superseded") and live_places(field, run_id, 1) == []
        field.hand_writer.append(claim, *ended("held", "superseded_by_resume"))
        ears.hear(run_id)

    field.drive(work, during)
    assert field.end(run_id)["status"] == "completed"
    events = [row.event for row in field.rows(run_id) if isinstance(row, CallRow) and row.call_id == claim.call_id]
    assert events == ["prepared", "held", "superseded", "prepared", "placed", "completed"]


@pytest.mark.req("R20")
def test_a_call_of_the_suffix_that_nobody_claimed_is_ended_with_the_others(field):
    run_id = field.submit(LANES)

    def some(prepared):
        return None if prepared.path == "main/1[a]" and prepared.position == 3 else work(prepared)

    interrupt(field, run_id, some, lambda: len(field.calls(run_id, "completed")) == 5)
    field.proofs = Verdicts({"main/1[a]:2": GONE})
    field.drive(lambda prepared: work(prepared) if prepared.attempt or prepared.path != "main/1[a]" else None)
    assert field.end(run_id)["status"] == "completed"
    assert sorted(superseded(field, run_id)) == ["main/1[a]:2", "main/1[a]:3"]


@pytest.mark.req("R15", "R16", "R20", "R02")
def test_a_call_whose_outcome_is_unknown_is_never_taken_back_nor_run_again(field):
    run_id = field.submit(LANES)

    def lost(prepared):
        unknown = prepared.path == "main/1[a]" and prepared.position == 3
        return ended("outcome_unknown", "home_changed") if unknown else work(prepared)

    field.drive(lost)
    field.resume(run_id)
    field.proofs = Verdicts({"main/1[a]:1": GONE})
    field.drive(work)
    taken = superseded(field, run_id)
    assert "main/1[a]:3" not in taken and "main/1[a]:1" in taken
    # Its node stays in recovery hold, so nothing of the suffix touches the worktree either.
    held = [row for row in field.calls(run_id, "held") if row.path == "main/1[a]"]
    assert [row.detail["reason"] for row in held] == ["recovery_hold", "recovery_hold"]
    assert held[0].detail["unknown_call"] == ids.call_id(run_id, "main/1[a]", 3)


@pytest.mark.req("R20")
def test_a_suffix_in_one_lane_of_a_thousand_touches_no_other(field):
    script = """
async def main(flow, args):
    async def lane(n):
        for step in range(2):
            await flow.crw.noop(n=n, step=step)
        return n
    return len(await flow.parallel([lane(n) for n in range(args)]))
"""
    run_id = field.submit(script, 1000)
    field.drive()
    field.resume(run_id)
    field.proofs = Verdicts({"main/1[789]:1": GONE})
    field.drive()
    assert live_places(field, run_id, 1) == ["main/1[789]:1", "main/1[789]:2"]
    assert len(superseded(field, run_id)) == 2

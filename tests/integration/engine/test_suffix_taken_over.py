"""A scheduler that dies inside a suffix leaves what it restored and forked: its successor goes on with that."""

import pytest

from shared.journal import runs
from tests.integration.engine.test_suffix import superseded, work
from tests.integration.engine.test_takeover import interrupt
from tests.integration.engine.verdicts import GONE, Verdicts

LONG_LANE = """
async def main(flow, args):
    build = await flow.agent("build", role="executor", node="a")
    await flow.crw.commit(node="a", message="m")
    fix = await build.call("fix")
    await flow.crw.noop(n="between")
    polish = await fix.call("polish")
    last = await polish.call("last")
    return [one.output["said"] for one in (build, fix, polish, last)]
"""


@pytest.mark.req("R20", "R29", "R30", "A16")
@pytest.mark.parametrize("asked", [False, True])
def test_what_was_restored_and_forked_in_a_suffix_before_its_scheduler_died_is_gone_on_with(field, asked):
    run_id = field.submit(LONG_LANE)
    field.drive(work)
    first = field.end(run_id)["result"]
    field.resume(run_id)
    field.proofs = Verdicts({"main:3": GONE})

    def until_between(prepared):
        return [] if prepared.position == 4 and prepared.attempt else work(prepared)

    interrupt(field, run_id, until_between, lambda: field.kept)
    fix = [row for row in field.calls(run_id, "prepared") if row.position == 3][-1]
    assert fix.detail["boundary"]["lineage"] == 1 and fix.detail["context"]["how"] == "fork"
    field.proofs = Verdicts()
    field.hand_writer.append(field.kept[0], *work(newest(field, run_id, 4)))
    if asked:
        # Stopped and resumed once more: what of the suffix has not begun goes on just so.
        runs.set_stop(field.database, run_id, "pause")
        field.resume(run_id)
    field.drive(work)
    assert field.end(run_id)["result"] == first
    polish, last = newest(field, run_id, 5), newest(field, run_id, 6)
    done = [row for row in field.calls(run_id, "completed") if row.position == 3][-1]
    assert (polish.detail["lineage"], polish.detail["context"]["thread"]) == (2, done.thread_id)
    assert not [row for row in (polish, last) if "boundary" in row.detail or "how" in row.detail["context"]]
    assert len(superseded(field, run_id)) == 4 and len(field.calls(run_id, "superseded")) == 4


def newest(field, run_id, position):
    """The newest attempt's first row of a call of main."""
    return [row for row in field.calls(run_id, "prepared") if row.position == position][-1]

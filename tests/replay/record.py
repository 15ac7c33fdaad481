"""Record the golden histories anew: `python -m tests.replay.record [NAME...]`. Starts a database of its own.

Each is a run of this program with a hand in place of workers, left as its case says.
Only what the engine decides is kept fixed by them: run it when a new kind of history
is added, not to make a failing test pass.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deploy.embedded import Postgres
from scheduler.flow import deciding
from shared.journal import runs
from shared.journal.database import Database
from shared.journal.upgrading import upgrade
from shared.model import tiers
from shared.model.proof import HeldState
from shared.model.rows import NewCallRow
from shared.model.unpushed import Unpushed
from tests.integration.engine.hands import Field, echo, ended
from tests.integration.engine.test_engine_ops import WITH_T1, some_null
from tests.integration.engine.test_held import LANE, held_once
from tests.integration.engine.test_suffix import LANES, work
from tests.integration.engine.test_takeover import interrupt
from tests.integration.engine.verdicts import GONE, MOVED, Verdicts
from tests.replay.stored import Stored, store
from tests.services import run_sql

CHAIN = """
async def main(flow, args):
    plan = await flow.agent("plan", role="architect")
    async def lane(n):
        return (await flow.agent(f"look at {n}", role="reviewer")).output
    looks = await flow.parallel({n: lane(n) for n in ("x", "y")})
    last = await plan.call("sum up")
    return [looks, last.output]
"""

ENGINE_OPS = """
async def main(flow, args):
    build = await flow.agent("build", role="executor", node="a")
    why = await flow.crw.classify(build)
    step = await flow.crw.tier_step(node="a", history=[build])
    await flow.agent("build", role=step["tier"], node="a")
    look = await flow.agent("look", role="reviewer", head="a" * 40)
    review = await flow.crw.review(
        node="a", head="a" * 40, criteria="it parses", reviewer=look, verdict="verified", findings=[]
    )
    return [why.output, step.output, review.output]
"""


def _stored(field: Field, name: str, run_id: str, **more: Any) -> Stored:
    spec = runs.load_spec(field.database, run_id)
    sources = {file: runs.load_source(field.database, digest).decode() for file, digest in spec.sources.items()}
    return replace(Stored(name, run_id, spec, sources, field.rows(run_id)), **more)


def _lanes(field: Field, answer: Callable[..., Any] = work) -> str:
    run_id = field.submit(LANES)
    field.drive(answer)
    return run_id


def all_proven(field: Field, name: str) -> Stored:
    return _stored(field, name, _lanes(field))


def effect_gone(field: Field, name: str) -> Stored:
    """e, a and f: a commit's effect is gone; what is behind it and behind the join runs live, the sibling replays."""
    return _stored(field, name, _lanes(field), verdicts=Verdicts({"main/1[a]:2": GONE}))


def parent_path(field: Field, name: str) -> Stored:
    """b: the position before the join asks something else, so nothing of its items replays."""
    run_id = field.submit(CHAIN)
    field.drive(echo)
    stored = _stored(field, name, run_id)
    return replace(stored, sources={"flow.py": CHAIN.replace('"plan"', '"plan again"')})


def other_input(field: Field, name: str) -> Stored:
    """c: the last position of one path asks something else."""
    stored = _stored(field, name, _lanes(field))
    return replace(stored, sources={"flow.py": LANES.replace('n="last"', 'n="other"')})


def other_input_takeover(field: Field, name: str) -> Stored:
    """c, where nobody asked for a resume: the run ends."""
    return replace(other_input(field, name), asked=False)


def facts_changed(field: Field, name: str) -> Stored:
    """d: what the node's slice of the plan says has changed."""
    field.inputs = lambda kind, asks: {"slice": 1} if asks.get("node") else None
    stored = _stored(field, name, _lanes(field))
    field.inputs = None
    return replace(stored, facts={"a": {"slice": 1}, "b": {"slice": 2}})


def join_results(field: Field, name: str) -> Stored:
    """f: items replay, and give the join other results than were recorded."""
    stored = _stored(field, name, _lanes(field))
    changed = LANES.replace("return [build.output, head.output, fix.output]", "return [head.output, fix.output]")
    return replace(stored, sources={"flow.py": changed})


def held_delivered(field: Field, name: str) -> Stored:
    """A held call goes on in place; what was recorded behind it gives way."""
    return _held(field, name, "delivered")


def held_not_delivered(field: Field, name: str) -> Stored:
    return _held(field, name, "not_delivered")


def _held(field: Field, name: str, state: str) -> Stored:
    run_id = field.submit(LANE)
    field.drive(lambda prepared: held_once(prepared, state))
    return _stored(field, name, run_id)


def held_moved(field: Field, name: str) -> Stored:
    """g: the files of a held call have changed since."""
    return replace(held_delivered(field, name), verdicts=Verdicts(moved={"main:1": MOVED}))


def held_without_snapshot(field: Field, name: str) -> Stored:
    """g: what a held call left could not be recorded."""
    return _worktree_failed(field, name, pending_tree_error="git refuses a/b")


def held_unpushed(field: Field, name: str) -> Stored:
    """A held call whose turns were over goes on in place: its work is pushed, and no turn is sent."""
    return _worktree_failed(field, name, **_UNPUSHED, **Unpushed("p", "c", "refs/k", "sha256:a").member())


def held_unpushed_open(field: Field, name: str) -> Stored:
    """One that has more to do goes on from what its host kept."""
    return _worktree_failed(field, name, **_UNPUSHED, **Unpushed("p", "c", "refs/k").member())


def held_unpushed_gone(field: Field, name: str) -> Stored:
    """g: its host does not have the work any more that the hub refused."""
    gone = HeldState("p", False, "kept_work_gone", "its host does not have the commit on refs/k any more")
    return replace(held_unpushed(field, name), verdicts=Verdicts(moved={"main:1": gone}))


_UNPUSHED = {"pending_tree_error": "the hub refuses refs/p: pre-receive hook declined"}


def _worktree_failed(field: Field, name: str, **detail: Any) -> Stored:
    def answer(prepared: Any) -> Any:
        rows = held_once(prepared) if prepared.detail["prompt"] == "build" else work(prepared)
        told = {"reason": "worktree_failed", **detail}
        held = NewCallRow("held", told, thread_id="t1", input_state="delivered")
        return [*rows[:-1], held] if rows[-1].event == "held" else rows

    run_id = field.submit(LANE)
    field.drive(answer)
    return _stored(field, name, run_id)


def unknown_outcome(field: Field, name: str) -> Stored:
    """An unknown outcome stays so, also where everything before it gives way; its node holds."""

    def answer(prepared: Any) -> Any:
        last = prepared.path == "main/1[a]" and prepared.position == 3
        return ended("outcome_unknown", "home_changed") if last else work(prepared)

    return _stored(field, name, _lanes(field, answer), verdicts=Verdicts({"main/1[a]:1": GONE}))


def open_call(field: Field, name: str) -> Stored:
    """A call that a worker still has is waited for; positions behind it were never opened."""
    run_id = field.submit(LANES)

    def busy(prepared: Any) -> Any:
        return [] if prepared.path == "main/1[a]" and prepared.position == 3 else work(prepared)

    interrupt(field, run_id, busy, lambda: field.kept and len(field.calls(run_id, "completed")) == 5)
    return _stored(field, name, run_id, asked=False)


def suffix_not_begun(field: Field, name: str) -> Stored:
    """A scheduler died between superseding and opening: the next one runs the same suffix."""
    run_id = _lanes(field)
    field.resume(run_id)
    field.proofs = Verdicts({"main/1[a]:2": GONE})
    interrupt(field, run_id, lambda prepared: None, lambda: field.calls(run_id, "superseded"))
    field.proofs = Verdicts()
    stored = _stored(field, name, run_id, asked=False)
    rows = [row for row in stored.rows if getattr(row, "attempt", 0) == 0]
    return replace(stored, rows=rows)


def host_lost(field: Field, name: str) -> Stored:
    """A call whose host was given up runs again on another one; nothing else gives way."""
    run_id = field.submit(LANE)

    def answer(prepared: Any) -> Any:
        if prepared.detail["prompt"] == "fix":
            return [NewCallRow("superseded", {"reason": "host_lost"})] if prepared.attempt == 0 else None
        return work(prepared)

    interrupt(field, run_id, answer, lambda: field.calls(run_id, "superseded"))
    stored = _stored(field, name, run_id, asked=False)
    return replace(stored, rows=[row for row in stored.rows if getattr(row, "attempt", 0) == 0])


def withdrawn(field: Field, name: str) -> Stored:
    """A cancelled run: what nobody had claimed is opened again, and fails nothing."""
    run_id = field.submit(LANES)

    def some(prepared: Any) -> Any:
        return None if prepared.path == "main/1[a]" and prepared.position == 3 else work(prepared)

    interrupt(field, run_id, some, lambda: len(field.calls(run_id, "completed")) == 5)
    runs.set_stop(field.database, run_id, "cancel")
    field.drive(some)
    return _stored(field, name, run_id)


def older_version(field: Field, name: str) -> Stored:
    """Recorded when the digest of a conversation still named the call that had it last: the same input all the same."""
    with patch.object(deciding, "digested", lambda asks: asks):
        return replace(_stored(field, name, _lanes(field)), asked=False)


def engine_ops(field: Field, name: str) -> Stored:
    """The engine's own ops, decided by a rule that steps up after one call without an answer: its answers stand."""
    run_id = field.submit(ENGINE_OPS, roles=WITH_T1)
    with patch.object(tiers, "NULL_MODELS", 1):
        field.drive(some_null)
    return _stored(field, name, run_id)


def other_criteria(field: Field, name: str) -> Stored:
    """c: a head is held against other criteria than those of its review record."""
    stored = engine_ops(field, name)
    return replace(stored, sources={"flow.py": ENGINE_OPS.replace("it parses", "it is fast")})


CASES = (
    all_proven, effect_gone, parent_path, other_input, other_input_takeover, facts_changed, join_results,
    held_delivered, held_not_delivered, held_moved, held_without_snapshot, held_unpushed, held_unpushed_open,
    held_unpushed_gone, unknown_outcome, open_call,
    suffix_not_begun, host_lost, withdrawn, older_version, engine_ops,
    other_criteria,
)  # fmt: skip


def main(chosen: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="crw-record-") as directory, Postgres(Path(directory)) as server:
        for case in CASES:
            if chosen and case.__name__ not in chosen:
                continue
            run_sql(server, f"create database {case.__name__}")
            url = server.database_url(case.__name__)
            upgrade(url)
            database = Database(url, process="record", pool_size=8)
            field = Field(database)
            store(case(field, case.__name__))
            field.close()
            database.close()
            print(case.__name__)


if __name__ == "__main__":
    main(sys.argv[1:])

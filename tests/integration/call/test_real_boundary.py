"""The real App Server under restored worktrees, forks, retold threads and held calls that go on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.demo.scripted_model import ScriptedModel
from shared.model.outcome import Status
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_boundary import row_of
from tests.integration.call.test_real_going_on import model, one
from tests.repositories import git

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

__all__ = ["model", "one"]
WRITES = {"out": [{"exec": "echo build >> made.txt"}]}
FIXES = {"out": [{"exec": "echo fix >> made.txt"}]}
FAILS = {"failed": {"code": "insufficient_quota", "message": "spent"}}


def asked(model: ScriptedModel) -> str:
    return str(model.requests()[-1]["body"].get("input"))


@pytest.mark.req("R24", "R27", "R31", "R33", "K21", "A15")
def test_a_fork_works_in_the_restored_worktree_and_knows_what_was_said(one: OneWorker, model: ScriptedModel) -> None:
    build = one.open(prompt(WRITES, DONE, text="Build the thing."))
    assert one.work(build).status is Status.COMPLETED  # type: ignore[union-attr]
    context = one.goes_on(build, how="fork")
    fix = one.open(prompt(FIXES, DONE, text="Mend the thing."), context=context, boundary=one.boundary(), lineage=1)
    ended = one.work(fix)
    assert ended is not None and ended.status is Status.COMPLETED, one.words(fix)
    new = Path(row_of(one, fix, "placed").worktree_path or "")
    assert (new / "made.txt").read_text() == "build\nfix\n" and new.name == "a2-l1"
    assert git(one.hub, "show", f"{one.rows(fix)[-1].pending_tree}:made.txt") == "build\nfix"
    assert "Build the thing." in asked(model) and "Mend the thing." in asked(model)
    started = row_of(one, fix, "fork_started").detail
    assert (started["effort"], started["sandbox"]["type"], started["cwd"]) == ("low", "workspaceWrite", str(new))


@pytest.mark.req("R35", "R36", "K42", "RULE12")
def test_a_thread_whose_home_is_gone_is_followed_by_one_that_is_told_of_it(
    one: OneWorker, model: ScriptedModel
) -> None:
    build = one.open(prompt(WRITES, DONE, text="Build the thing."))
    one.work(build)
    one.worker.appserver.connection()._server.stop()
    shutil.rmtree(one.settings.state_dir / "codex-home" / "sessions")
    for file in (one.settings.state_dir / "codex-home").glob("*.sqlite*"):
        file.unlink()
    fix = one.open(prompt(FIXES, DONE, text="Mend the thing."), context=one.goes_on(build))
    ended = one.work(fix)
    assert ended is not None and ended.status is Status.COMPLETED, one.words(fix)
    assert row_of(one, fix, "conversation").detail["rung"] == "checkpoint"
    said = asked(model)
    assert said.index("Build the thing.") < said.index("What is asked now:") < said.index("Mend the thing.")
    assert git(one.hub, "show", f"{one.rows(fix)[-1].pending_tree}:made.txt") == "build\nfix"


@pytest.mark.req("R41", "R43")
def test_a_held_call_carries_on_in_its_thread(one: OneWorker, model: ScriptedModel) -> None:
    model.scripts["late"] = {"by_thread": True, "steps": [WRITES, FAILS, DONE]}
    call = one.open("Build the thing. [[script:late]]")
    held = one.work(call)
    assert held is not None and held.status is Status.HELD, one.words(call)
    ended = one.work(one.clear_hold(call))
    assert ended is not None and (ended.status, ended.output) == (Status.COMPLETED, {"summary": "done"})
    assert "Carry on" in asked(model)
    threads = [row.thread_id for row in one.rows(call) if row.event == "thread_started"]
    assert len(set(threads)) == 1


@pytest.mark.req("A16", "W12", "W13")
def test_a_reading_continuation_runs_in_the_directory_it_named(one: OneWorker, model: ScriptedModel) -> None:
    design = one.open(prompt(DONE), role="architect", node=None)
    one.work(design)
    look = {"out": [{"exec": "pwd"}]}
    review = one.open(prompt(look, DONE), role="architect", node=None, head=one.base, context=one.goes_on(design))
    ended = one.work(review)
    assert ended is not None and ended.status is Status.COMPLETED, one.words(review)
    own = row_of(one, review, "placed").worktree_path
    assert str(own) in asked(model) and not Path(str(own)).exists()
    then = one.open(prompt(DONE), role="architect", node=None, context=one.goes_on(review))
    assert one.work(then).status is Status.COMPLETED  # type: ignore[union-attr]


@pytest.mark.req("R35", "R36", "K42")
@pytest.mark.parametrize(
    ("left", "how"),
    [
        pytest.param(lambda lines: lines[:2], "fork", id="its turns are gone"),
        pytest.param(lambda lines: [b"garbage", *lines[1:]], "fork", id="it begins with something else"),
        pytest.param(lambda lines: [b"\0" * 4000], "continue", id="it is all zeros"),
    ],
)
def test_a_thread_whose_file_was_damaged_is_followed_by_one_that_is_told_of_it(
    one: OneWorker, model: ScriptedModel, left: Callable[[list[bytes]], list[bytes]], how: str
) -> None:
    build = one.open(prompt(WRITES, DONE, text="Build the thing."))
    one.work(build)
    one.worker.appserver.connection()._server.stop()
    (rollout,) = (one.settings.state_dir / "codex-home" / "sessions").rglob("*.jsonl")
    rollout.write_bytes(b"\n".join(left(rollout.read_bytes().split(b"\n"))) + b"\n")
    suffix = {"boundary": one.boundary(), "lineage": 1} if how == "fork" else {}
    context = one.goes_on(build, **({"how": how} if suffix else {}))
    fix = one.open(prompt(FIXES, DONE, text="Mend the thing."), context=context, **suffix)
    ended = one.work(fix)
    assert ended is not None and ended.status is Status.COMPLETED, row_of(one, fix, "held").detail
    assert row_of(one, fix, "conversation").detail["rung"] == "checkpoint"
    said = asked(model)
    assert said.index("Build the thing.") < said.index("What is asked now:") < said.index("Mend the thing.")

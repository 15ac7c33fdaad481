"""A state directory that was wiped and made anew at its path is another home: the hub speaks for what lay there."""

from __future__ import annotations

import shutil

import pytest

from shared.hub.refs import pending_ref
from shared.journal import loss
from shared.journal.questions import Question
from shared.model.outcome import Status
from shared.model.proof import HOST_LOST, PROOFS, Answer
from tests.integration.call.desk import DONE, OneWorker, prompt
from tests.integration.call.test_boundary import FAILS, FIXES, WRITES, built, row_of
from tests.repositories import git
from workers.proofs.answer import answer_proofs

pytestmark = pytest.mark.timeout(180)


def wipe(one: OneWorker) -> None:
    """The host's state directory is removed and made anew at its path; the next worker of its name registers."""
    one.die()
    shutil.rmtree(one.settings.state_dir)
    loss.lose_host(one.database, "h1")
    one.reincarnate()


@pytest.mark.req("K33", "R35", "RULE6", "RULE12")
def test_a_node_of_a_state_directory_that_was_wiped_goes_on_from_what_the_hub_has(one: OneWorker) -> None:
    build = built(one)
    wipe(one)
    fix = one.open(prompt(FIXES, DONE), context=one.goes_on(build))
    ended = one.work(fix)
    assert ended is not None and ended.status is Status.COMPLETED, ended
    conversation = row_of(one, fix, "conversation")
    assert (conversation.detail["rung"], conversation.detail["reason"]) == ("checkpoint", "other_home")
    assert row_of(one, fix, "worktree_restored").detail["tree_of"] == build.call_id
    assert git(one.hub, "show", f"{pending_ref(one.run_id, fix.call_id)}:made.txt") == "build\nfix"


@pytest.mark.req("P07", "RULE6")
def test_what_lay_in_a_state_directory_that_was_wiped_is_proven_by_the_hub_as_a_lost_host_s(one: OneWorker) -> None:
    build, held = built(one), one.open(prompt(WRITES, FAILS), node="n2")
    one.work(held)
    assert one.rows(held)[-1].event == "held"
    asked = Question("q", "h1", PROOFS, one.run_id, None, one.lease.epoch)
    assert Answer.from_json(answer_proofs(one.worker, asked)).held[held.call_id].in_place
    wipe(one)
    answer = Answer.from_json(answer_proofs(one.worker, asked))
    assert answer.verdicts == {} and answer.held[held.call_id] == HOST_LOST
    git(one.hub, "update-ref", "-d", pending_ref(one.run_id, build.call_id))
    assert Answer.from_json(answer_proofs(one.worker, asked)).verdict(build.call_id).reason == "work_gone"

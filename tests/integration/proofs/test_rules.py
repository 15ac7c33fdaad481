"""Each proof rule on a real repository, with everything unreferenced collected between any two rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.proofs.host import ProofHost
from tests.integration.worktrees.place import RUN
from tests.repositories import commit_files, git, write_files
from workers.worktrees.clean import clean_run


@pytest.fixture
def host(tmp_path: Path) -> ProofHost:
    return ProofHost(tmp_path / "h1")


@pytest.mark.req("P01", "P02", "P03", "P05", "P06", "W19")
def test_builds_fixes_and_commits_are_proven_by_the_chain_and_the_files(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.commit(2)
    host.fix(3, worktree, {"b.txt": "b\n"})
    host.commit(4)
    host.fix(5, worktree, {"c.txt": "c\n"})

    first, second = host.prove(), host.prove()

    assert first.verdicts == {} and first == second
    state = first.nodes["n"]
    assert (state.worktree, state.head) == (str(worktree), git(worktree, "rev-parse", "HEAD"))
    assert host.collected > 10


@pytest.mark.req("P04", "O03")
def test_a_commit_of_somebody_else_breaks_what_no_recorded_commit_carries(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.commit(2)
    host.fix(3, worktree, {"b.txt": "b\n"})
    commit_files(worktree, {}, "somebody")
    assert host.unproven() == {3: "foreign_commit"}

    git(worktree, "reset", "-q", "--soft", host.base)
    assert host.unproven() == {1: "foreign_commit", 2: "commit_left_history", 3: "foreign_commit"}

    git(worktree, "reset", "-q", "--soft", host.rows[-4].commit_sha or "")
    assert host.unproven() == {}


def test_a_head_that_was_moved_back_to_a_commit_of_its_node_is_not_called_somebody_else_s(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.commit(2)
    first = git(worktree, "rev-parse", "HEAD")
    host.fix(3, worktree, {"b.txt": "b\n"})
    host.commit(4)
    host.fix(5, worktree, {"c.txt": "c\n"})
    foreign = commit_files(worktree, {}, "somebody")
    for head, words in ((first, "was moved back to"), (host.base, "was moved back to"), (foreign, "no row of the run")):
        git(worktree, "reset", "-q", "--soft", head)
        said = {str(one.sentence) for one in host.prove().verdicts.values() if one.reason == "foreign_commit"}
        assert said and all(words in sentence for sentence in said), said


@pytest.mark.req("P06", "P07", "P15")
def test_restoring_the_files_restores_the_proof(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.fix(2, worktree, {"a.txt": "b\n"})
    write_files(worktree, {"a.txt": "x\n"})
    assert host.unproven() == {2: "files_changed"}
    write_files(worktree, {"a.txt": "a\n"})
    assert host.unproven() == {2: "older_state"}
    (worktree / "a.txt").unlink()
    assert host.unproven() == {1: "work_gone", 2: "work_gone"}
    write_files(worktree, {"a.txt": "b\n", "untracked.txt": "?\n"})
    assert host.unproven() == {2: "files_changed"}
    (worktree / "untracked.txt").unlink()
    assert host.unproven() == {}


@pytest.mark.req("P07")
def test_a_dirty_worktree_with_everything_committed_is_not_read(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.commit(2)
    write_files(worktree, {"a.txt": "x\n"})

    answer = host.prove()

    assert answer.verdicts == {} and answer.nodes["n"].snapshot is None


@pytest.mark.req("P07")
def test_a_worktree_that_is_gone_loses_only_what_was_not_committed(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.commit(2)
    host.fix(3, worktree, {"b.txt": "b\n"})
    shutil.rmtree(worktree)
    answer = host.prove()
    assert host.unproven() == {3: "worktree_unreadable"} and answer.nodes["n"].head is None
    assert "no worktree" in str(next(iter(answer.verdicts.values())).sentence)

    git(host.mirror, "worktree", "prune", "--expire=now")
    assert host.unproven() == {3: "worktree_unreadable"}


@pytest.mark.req("P07", "O03")
def test_what_a_cleaning_left_nowhere_is_not_proven_and_what_is_on_a_branch_is(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    first = host.commit(2).output["commit"]
    host.fix(3, worktree, {"b.txt": "b\n"})
    host.commit(4)
    host.fix(6, host.build(5, {"c.txt": "c\n"}, "other"), {"d.txt": "d\n"}, "other")
    git(host.hub, "update-ref", "refs/heads/landed", first)
    assert host.unproven() == {}
    clean_run(host.mirrors, host.state_dir, str(host.hub), RUN)
    host.collect()
    assert host.unproven() == {3: "worktree_unreadable", 4: "commit_gone", 5: "work_gone", 6: "worktree_unreadable"}

    git(host.hub, "update-ref", "-d", "refs/heads/landed")
    said = host.prove().verdicts
    assert {host.position(call) for call in said} == {1, 2, 3, 4, 5, 6}
    assert "not on the hub any more" in str(next(one.sentence for one in said.values() if one.reason == "work_gone"))
    away = host.hub.rename(host.hub.with_name("away.git"))
    assert host.unproven() == {6: "worktree_unreadable"}, "a hub that is away says nothing"
    away.rename(host.hub)


@pytest.mark.req("P07")
def test_files_that_git_cannot_read_are_nobodys(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    (worktree / "nested").mkdir()
    git(worktree / "nested", "init", "-q")
    assert host.unproven() == {1: "worktree_unreadable"}


@pytest.mark.req("P08", "P02")
def test_a_retired_worktree_is_judged_by_the_history_of_the_current_one(host: ProofHost) -> None:
    old = host.build(1, {"a.txt": "a\n"})
    host.commit(2)
    new = host.build(3, {"b.txt": "b\n"})
    shutil.rmtree(old)
    assert host.unproven() == {}

    git(new, "reset", "-q", "--soft", host.base)
    assert host.unproven() == {1: "commit_left_history", 2: "commit_left_history", 3: "foreign_commit"}


@pytest.mark.req("P09", "P02", "W05")
def test_work_that_a_fresh_worktree_abandoned_is_a_recorded_fact(host: ProofHost) -> None:
    old = host.build(1, {"a.txt": "a\n"})
    host.build(2, {"b.txt": "b\n"})
    shutil.rmtree(old)
    assert host.unproven() == {}


@pytest.mark.req("P13", "R27", "R29")
def test_a_restored_worktree_proves_the_prefix_while_it_holds_its_files(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    built = host.rows[-1].pending_tree
    host.fix(2, worktree, {"a.txt": "b\n"})
    host.supersede(2)
    assert host.unproven() == {}
    restored = host.restore(2, 2, host.base, built)
    shutil.rmtree(worktree)
    assert host.unproven() == {}

    write_files(restored, {"a.txt": "half\n"})
    host.row(2, "superseded", attempt=1)
    # What stands there is the dead call's; the build is laid into the next one again.
    assert host.unproven() == {}
    third = host.restore(2, 3, host.base, built)
    host.end(2, third, {"a.txt": "c\n"})
    assert host.unproven() == {}
    write_files(third, {"a.txt": "x\n"})
    assert host.unproven() == {2: "files_changed"}


@pytest.mark.req("P14", "O14", "K10")
def test_an_executors_own_commit_is_on_the_chain_while_it_holds_the_calls_tree(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.commit(2)
    host.go_on(3, worktree)
    stray = commit_files(worktree, {"b.txt": "b\n"}, "the model's own")
    host.complete(3, worktree)
    assert host.unproven() == {}
    commit_files(worktree, {}, "somebody")
    assert host.unproven() == {3: "foreign_commit"}

    git(worktree, "reset", "-q", "--soft", stray)
    committed = host.commit(4)
    assert committed.facts["stray_head"] == stray and host.unproven() == {}


@pytest.mark.req("RULE10")
def test_a_call_at_work_is_judged_by_the_snapshot_of_its_begin(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.go_on(2, worktree)
    write_files(worktree, {"a.txt": "half an edit\n"})
    commit_files(worktree, {}, "what it makes of git meanwhile")
    assert host.unproven() == {}

    host.row(2, "superseded")
    assert host.unproven() == {1: "foreign_commit"}


@pytest.mark.req("O03", "O13")
def test_head_at_what_an_open_commit_makes_is_its_own_effect(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.row(2, "prepared", "commit")
    effect = host.commit(2)
    host.rows.pop()

    assert git(worktree, "rev-parse", "HEAD") == effect.output["commit"] and host.unproven() == {}
    again = host.commit(2)
    assert again.output == effect.output and host.unproven() == {}


@pytest.mark.req("R41", "R42", "R48")
def test_a_held_call_goes_on_in_place_only_in_the_files_it_left(host: ProofHost) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    host.go_on(2, worktree)
    write_files(worktree, {"a.txt": "half\n"})
    held = host.complete(2, worktree, event="held")
    state = host.prove().held[held.call_id]
    assert state.in_place and state.snapshot == held.held_tree and host.unproven() == {}

    write_files(worktree, {"a.txt": "touched\n"})
    answer = host.prove()
    state = answer.held[held.call_id]
    assert (state.in_place, state.reason) == (False, "files_changed") and answer.verdicts == {}
    shutil.rmtree(worktree)
    assert host.prove().held[held.call_id].reason == "worktree_unreadable"


@pytest.mark.req("R42")
def test_a_call_held_for_an_active_turn_needs_its_thread_idle(host: ProofHost) -> None:
    worktree = host.begin(1)
    held = host.complete(1, worktree, event="held", reason="thread_active", thread_id="t1")
    for status, in_place in (("active", False), ("idle", True), ("notLoaded", True)):
        host.threads = {"t1": status}
        assert host.prove().held[held.call_id].in_place is in_place
    host.threads = {}
    assert host.prove().held[held.call_id].reason == "thread_not_idle"


@pytest.mark.req("K37", "RULE26")
def test_a_host_answers_for_the_nodes_it_has(host: ProofHost) -> None:
    host.build(1, {"a.txt": "a\n"}, node="one")
    host.build(2, {"b.txt": "b\n"}, node="two")

    assert set(host.prove().nodes) == {"one", "two"}
    assert host.prove(host="h2").nodes == {}


@pytest.mark.req("R40", "R41", "R42")
def test_a_held_call_whose_going_on_was_withdrawn_is_looked_at_as_it_was_held(host: ProofHost) -> None:
    worktree = host.begin(1)
    held = host.complete(1, worktree, event="held", reason="quota")
    for event in ("hold_cleared", "withdrawn"):
        host.row(1, event, attempt=1)
    assert host.prove().held[held.call_id].in_place
    write_files(worktree, {"a.txt": "touched\n"})
    assert host.prove().held[held.call_id].reason == "files_changed"


@pytest.mark.req("P04", "RULE12")
def test_a_commit_that_another_host_made_of_the_hub_s_objects_is_no_foreign_one_and_not_missing_here(
    host: ProofHost, tmp_path: Path
) -> None:
    worktree = host.build(1, {"a.txt": "a\n"})
    began = git(worktree, "rev-parse", "HEAD")
    host.commit_elsewhere(2, tmp_path / "h2")
    assert git(worktree, "rev-parse", "HEAD") == began and host.unproven() == {}
    # What HEAD here was moved to is still somebody's.
    commit_files(worktree, {}, "somebody")
    assert host.unproven() == {1: "foreign_commit", 2: "commit_left_history"}

"""The integrate op on a real hub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.base.errors import GitError
from shared.hub.guard import move_guard, push_guarded
from shared.hub.push import Pushed
from shared.model.rows import NewCallRow
from tests.integration.ops.host import OpHost
from tests.integration.worktrees.place import RUN
from tests.repositories import commit_files, git
from workers.claim import CallStopped
from workers.ops.integrate import Integrate

TARGET = f"crw/{RUN}"


class Hub(OpHost):
    """A host with lanes whose heads are on the hub."""

    def lane(self, name: str, files: dict[str, str]) -> str:
        work = self.root / "hub.git-work"
        git(work, "checkout", "-q", "--detach", self.base)
        head = commit_files(work, files, f"lane {name}")
        git(work, "push", "-q", str(self.hub), f"{head}:refs/crw/flow/{RUN}/commit/{name}/1")
        return head

    def somebody_pushes(self, branch: str, files: dict[str, str]) -> str:
        work = self.root / "hub.git-work"
        git(work, "fetch", "-q", str(self.hub), branch)
        git(work, "checkout", "-q", "--detach", "FETCH_HEAD")
        commit = commit_files(work, files, "somebody else")
        git(work, "push", "-q", str(self.hub), f"{commit}:refs/heads/{branch}")
        return commit

    def target(self, branch: str = TARGET) -> str | None:
        return self.on_hub(f"refs/heads/{branch}")

    def no_worktree_is_left(self) -> bool:
        return git(self.mirror, "worktree", "list").count("\n") == 0


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "h1")


@pytest.mark.req("O21")
def test_heads_are_merged_in_key_order_one_merge_commit_each(hub: Hub) -> None:
    b, a = hub.lane("b", {"b.txt": "b\n"}), hub.lane("a", {"a.txt": "a\n"})
    output = hub.integrate(1, {"b": b, "a": a})
    assert output == {
        "merged": True,
        "commit": hub.target(),
        "target": TARGET,
        "conflicts": [],
        "reason": None,
    }
    merges = git(hub.hub, "log", "--first-parent", "--format=%s|%P", TARGET).split("\n")
    assert [line.split("|")[0] for line in merges] == [f"Merge b into {TARGET}", f"Merge a into {TARGET}", "first"]
    assert merges[1] == f"Merge a into {TARGET}|{hub.base} {a}" and merges[0].endswith(f" {b}")
    assert git(hub.hub, "ls-tree", "--name-only", TARGET).split("\n") == ["README.md", "a.txt", "b.txt", "src"]
    assert hub.no_worktree_is_left()


@pytest.mark.req("RULE8")
def test_the_same_request_makes_the_same_merges_on_every_host(tmp_path: Path) -> None:
    first = Hub(tmp_path / "h1")
    heads = {"a": first.lane("a", {"a": "a"}), "b": first.lane("b", {"b": "b"})}
    output = first.integrate(1, heads)
    git(first.hub, "update-ref", "-d", f"refs/heads/{TARGET}")
    second = Hub(tmp_path / "h2", hub=first.hub)
    assert second.integrate(1, heads) == output


@pytest.mark.req("O21", "RULE8")
def test_the_same_request_finds_its_own_merge_also_when_the_target_moved_on(hub: Hub) -> None:
    heads = {"a": hub.lane("a", {"a": "a"}), "b": hub.lane("b", {"b": "b"})}
    output = hub.integrate(1, heads)
    later = hub.somebody_pushes(TARGET, {"later": "x"})
    hub.announced.clear()
    assert hub.integrate(1, heads, fence=2) == output
    assert hub.target() == later and hub.announced == []


def test_heads_that_the_target_holds_already_are_fine(hub: Hub) -> None:
    a, b = hub.lane("a", {"a": "a"}), hub.lane("b", {"b": "b"})
    first = hub.integrate(1, {"a": a})
    assert hub.integrate(2, {"a": a})["commit"] == first["commit"]
    both = hub.integrate(3, {"a": a, "b": b})
    assert both["merged"] and git(hub.hub, "log", "-1", "--format=%P", TARGET) == f"{first['commit']} {b}"


def test_the_base_alone_makes_the_target(hub: Hub) -> None:
    assert hub.integrate(1, {"a": hub.base})["commit"] == hub.base == hub.target()


def test_the_script_may_name_the_branch_and_the_message(hub: Hub) -> None:
    output = hub.integrate(1, {"a": hub.lane("a", {"a": "a"})}, target="main", message="Bring it in")
    assert output["target"] == "main" and hub.target("main") == output["commit"]
    assert git(hub.hub, "log", "-1", "--format=%s", "main") == "Bring it in"


def test_a_conflict_is_a_result_with_the_files_and_nothing_moves(hub: Hub) -> None:
    heads = {
        "a": hub.lane("a", {"src/app.txt": "a\n", "a.txt": "a"}),
        "b": hub.lane("b", {"src/app.txt": "b\n"}),
    }
    output = hub.integrate(1, heads)
    assert (output["merged"], output["commit"], output["conflicts"]) == (False, None, ["src/app.txt"])
    assert "b conflicts" in output["reason"]
    assert hub.target() is None and hub.announced == [] and hub.no_worktree_is_left()


def between(hub: Hub, what: Any) -> Any:
    """The context's append: `what` happens after the intent and before the push."""

    def append(*rows: NewCallRow) -> None:
        hub.announced.extend(rows)
        what(len(hub.announced))

    return append


def test_a_target_that_moved_is_merged_anew(hub: Hub) -> None:
    hub.integrate(1, {"z": hub.base})
    head = hub.lane("a", {"a": "a"})
    moves = []

    def move(count: int) -> None:
        if len(moves) < 2:
            moves.append(hub.somebody_pushes(TARGET, {f"other{count}": "x"}))

    op = Integrate()
    context = hub.context(2, "integrate", op.parse({"heads": {"a": head}}))
    output = op.run(replace(context, append=between(hub, move))).output
    assert output["merged"] and git(hub.hub, "log", "-1", "--format=%P", TARGET) == f"{moves[-1]} {head}"


def test_a_target_that_moves_five_times_is_a_result(hub: Hub) -> None:
    hub.integrate(1, {"z": hub.base})
    op = Integrate()
    context = hub.context(2, "integrate", op.parse({"heads": {"a": hub.lane("a", {"a": "a"})}}))
    moving = between(hub, lambda count: hub.somebody_pushes(TARGET, {f"other{count}": "x"}))
    output = op.run(replace(context, append=moving)).output
    assert not output["merged"] and "moved 5 times" in output["reason"]


def test_a_push_that_the_hub_refuses_is_a_result_with_its_words(hub: Hub) -> None:
    hook = hub.hub / "hooks" / "update"
    hook.write_text("#!/bin/sh\ncase $1 in refs/heads/*) exit 1;; esac\n", encoding="utf-8")
    hook.chmod(0o755)
    output = hub.integrate(1, {"a": hub.lane("a", {"a": "a"})})
    assert not output["merged"] and "hook declined" in output["reason"] and hub.target() is None


@pytest.mark.req("RULE40")
def test_a_target_that_is_checked_out_in_the_end_is_a_result(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "h1")
    work = hub.root / "hub.git-work"
    other = Hub(tmp_path / "h2", hub=work)
    output = other.integrate(1, {"a": commit_files(work, {"a": "a"})}, target="main")
    assert output["merged"]  # contained already: nothing to push
    git(work, "checkout", "-q", "--detach", other.base)
    head = commit_files(work, {"b": "b"})
    git(work, "update-ref", f"refs/crw/flow/{RUN}/commit/n/1", head)
    git(work, "checkout", "-q", "main")
    output = other.integrate(2, {"b": head}, target="main")
    assert not output["merged"] and "checked out" in output["reason"]


@pytest.mark.req("RULE7")
def test_a_cancel_between_intent_and_push_keeps_the_target_where_it_was(hub: Hub) -> None:
    op = Integrate()
    context = hub.context(1, "integrate", op.parse({"heads": {"a": hub.lane("a", {"a": "a"})}}))

    def cancelled(*rows: NewCallRow) -> None:
        # The journal takes the first intent; then the run is cancelled, and it takes no other.
        if hub.announced:
            raise CallStopped("cancel")
        hub.announced.extend(rows)
        move_guard(hub.git, str(hub.hub), RUN, "cancel")

    with pytest.raises(CallStopped):
        op.run(replace(context, append=cancelled))
    assert hub.target() is None and hub.no_worktree_is_left()


@pytest.mark.req("RULE7")
def test_each_push_moves_the_guard_and_the_intent_names_what_it_was(hub: Hub) -> None:
    guard = f"refs/crw/flow/{RUN}/guard"
    hub.integrate(1, {"a": hub.lane("a", {"a": "a"})})
    first = hub.on_hub(guard)
    hub.integrate(2, {"b": hub.lane("b", {"b": "b"})})
    assert [row.detail["guard"] for row in hub.announced] == [None, first] and hub.on_hub(guard) not in (None, first)


@pytest.mark.req("RULE8")
def test_a_lost_answer_of_the_hub_is_settled_by_looking(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    real = push_guarded
    answers = []

    def losing(*arguments: Any) -> Pushed:
        answers.append(real(*arguments))
        if len(answers) == 1:
            raise GitError("git push failed: the remote end hung up")
        return answers[-1]

    monkeypatch.setattr("workers.ops.integrate.push_guarded", losing)
    output = hub.integrate(1, {"a": hub.lane("a", {"a": "a"})})
    assert output["merged"] and output["commit"] == hub.target()
    assert git(hub.hub, "rev-list", "--count", "--merges", TARGET) == "1"

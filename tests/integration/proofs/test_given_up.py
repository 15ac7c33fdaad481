"""A state directory that was given up: its host's name may come back with another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.hub.refs import pending_ref
from shared.model.proof import HOST_LOST
from tests.integration.proofs.host import ProofHost
from tests.integration.worktrees.place import RUN
from tests.repositories import git
from workers.worktrees.mirror import Mirrors


@pytest.mark.req("P07", "RULE6")
def test_another_state_directory_of_the_same_name_goes_by_what_the_hub_has(tmp_path: Path) -> None:
    host = ProofHost(tmp_path / "h1")
    worktree = host.build(1, {"a.txt": "a\n"})
    host.go_on(2, worktree)
    held = host.complete(2, worktree, event="held")
    assert host.prove().held[held.call_id].in_place
    host.mirrors = Mirrors(tmp_path / "state of its own", host.git)
    answer = host.prove()
    assert answer.verdicts == {} and answer.held[held.call_id] == HOST_LOST and "n" in answer.nodes
    git(host.hub, "update-ref", "-d", pending_ref(RUN, host.rows[0].call_id))
    assert host.unproven() == {1: "work_gone"}

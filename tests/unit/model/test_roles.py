"""The roles that are built in, and what each may do."""

from __future__ import annotations

import pytest

from shared.model.roles import BUILT_IN_ROLES, EXECUTOR_ROLES, Role, default_prompt, default_sandbox


@pytest.mark.req("DEF12", "A03")
def test_only_the_two_executors_may_write_and_they_alone_work_in_a_node_s_worktree() -> None:
    sandboxes = {name: default_sandbox(name) for name in BUILT_IN_ROLES}
    assert {name for name, sandbox in sandboxes.items() if sandbox != "read-only"} == EXECUTOR_ROLES
    assert {sandboxes[name] for name in EXECUTOR_ROLES} == {"workspace-write"}
    writing = {name for name in BUILT_IN_ROLES if Role(name, "m", "low", sandboxes[name], "").writes}
    assert writing == EXECUTOR_ROLES


@pytest.mark.req("DEF12")
def test_a_built_in_role_has_instructions_and_no_network_and_a_role_of_the_user_s_own_reads() -> None:
    assert set(BUILT_IN_ROLES) == {"architect", "explorer", "executor", "executor-t1", "reviewer", "auditor", "qa"}
    assert all(default_prompt(name) for name in BUILT_IN_ROLES)
    assert not Role("executor", "m", "low", "workspace-write", "").network
    assert (default_sandbox("poet"), default_prompt("poet")) == ("read-only", "")

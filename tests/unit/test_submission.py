"""What the settings say about roles, as a run keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.submission import DEFAULT_EFFORT, new_key, snapshot_roles
from shared.base.errors import UsageError
from shared.base.settings import CodexSettings, RoleSettings, Settings


def settings_with(models: list[str] | None = None, **roles: RoleSettings) -> Settings:
    return Settings(roles=roles, codex=CodexSettings(models=models or []))


@pytest.mark.req("A03", "T49")
def test_a_role_is_kept_with_its_pair_sandbox_and_prompt(tmp_path: Path):
    prompt = tmp_path / "own.md"
    prompt.write_text("Be brief.")
    roles = snapshot_roles(
        settings_with(
            executor=RoleSettings(model="m"),
            reviewer=RoleSettings(model="n", effort="high", prompt=str(prompt)),
            qa=RoleSettings(),
        )
    )
    assert list(roles) == ["executor", "reviewer"], "a role without a model is none a run can use"
    executor, reviewer = roles.values()
    assert (executor.effort, executor.sandbox) == (DEFAULT_EFFORT, "workspace-write") and executor.prompt
    assert (reviewer.model, reviewer.effort, reviewer.sandbox) == ("n", "high", "read-only")
    assert reviewer.prompt == "Be brief."


@pytest.mark.req("T49")
@pytest.mark.parametrize(
    ("role", "words"),
    [
        (RoleSettings(model="m", effort="mighty"), "roles.qa.effort is 'mighty'"),
        (RoleSettings(model="x"), "roles.qa.model is 'x'; codex.models has m"),
        (RoleSettings(model="m", prompt="/no/such/file"), "roles.qa.prompt names /no/such/file"),
    ],
)
def test_a_setting_of_a_role_that_cannot_be_used_is_named(role: RoleSettings, words: str):
    with pytest.raises(UsageError, match=words):
        snapshot_roles(settings_with(["m"], qa=role))


def test_every_made_key_is_another():
    assert len({new_key() for _ in range(100)}) == 100

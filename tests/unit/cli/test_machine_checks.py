"""What doctor finds on a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.cli import machine_checks
from scheduler.cli.agent_checks import check_codex
from scheduler.cli.machine_checks import FAILED, NOTE, OK, check_git, check_roles, check_state_dir
from shared.base.settings import RoleSettings, Settings


def settings_with(**given) -> Settings:
    return Settings(**given)


def test_an_old_git_fails_with_the_version_that_is_wanted(monkeypatch):
    monkeypatch.setattr(machine_checks, "first_line", lambda argv: "git version 2.30.1")
    check = check_git()
    assert (check.state, check.mend) == (FAILED, "install git 2.36 or newer")


def test_an_explicit_codex_that_is_none_fails_and_names_the_setting():
    check = check_codex(settings_with(codex={"bin": "/no/such/codex"}))
    assert check.state == FAILED and "codex.bin" in check.fact


def test_a_state_directory_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    (check,) = check_state_dir(settings_with(state_dir=tmp_path / "file" / "state"))
    assert check.state == FAILED and "CRW_STATE_DIR" in check.mend


@pytest.mark.req("RULE6")
def test_too_little_space_fails_and_says_that_nothing_is_claimed(tmp_path):
    checks = {check.name: check for check in check_state_dir(settings_with(state_dir=tmp_path, min_free_bytes=1 << 60))}
    assert checks["disk space"].state == FAILED and "claims nothing" in checks["disk space"].fact


@pytest.mark.req("K35")
def test_a_state_directory_where_the_sandbox_may_write_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    opened = {"sandbox_workspace_write": {"exclude_tmpdir_env_var": False}}
    inside = settings_with(state_dir=tmp_path / "state", min_free_bytes=0, codex={"config": opened})
    assert {check.name: check.state for check in check_state_dir(inside)}["sandbox"] == FAILED
    closed = settings_with(state_dir=tmp_path / "state", min_free_bytes=0)
    assert {check.name: check.state for check in check_state_dir(closed)}["sandbox"] == NOTE


def test_roles_without_any_model_fail_and_the_mend_is_the_line_to_write():
    assert "[roles.executor]" in check_roles(settings_with()).mend
    some = check_roles(settings_with(roles={"executor": RoleSettings(model="m")}))
    assert some.state == NOTE and "without a model: architect" in some.fact


def test_a_role_prompt_that_is_no_file_fails(tmp_path: Path):
    roles = {"executor": RoleSettings(model="m", prompt=str(tmp_path / "none.md"))}
    assert check_roles(settings_with(roles=roles)).state == FAILED


def test_python_is_one_of_the_supported():
    assert machine_checks.check_python().state == OK

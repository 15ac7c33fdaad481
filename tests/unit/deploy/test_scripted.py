"""The scripted provider's settings reach a child through its environment and give every role a model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.scripted import MODEL, as_variables, scripted_settings
from shared.base.settings import RoleSettings, load_settings
from shared.model.roles import BUILT_IN_ROLES

URL = "http://127.0.0.1:1/v1"


@pytest.fixture(autouse=True)
def a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CRW_")]:
        monkeypatch.delenv(name)
    (tmp_path / "crw.toml").touch()
    monkeypatch.setenv("CRW_CONFIG", str(tmp_path / "crw.toml"))
    monkeypatch.setenv("CRW_STATE_DIR", str(tmp_path))


def test_every_built_in_role_gets_the_scripted_model_and_codex_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in as_variables(scripted_settings(URL)).items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert {name: settings.roles[name].model for name in BUILT_IN_ROLES} == dict.fromkeys(BUILT_IN_ROLES, MODEL)
    assert settings.codex.models == [MODEL]
    assert settings.codex.config["model_providers"]["scripted"]["base_url"] == URL


def test_a_role_with_a_model_of_its_own_keeps_it_and_a_role_of_the_users_own_gets_one() -> None:
    configured = {"executor": RoleSettings(model="own"), "poet": RoleSettings(sandbox="read-only")}
    roles = scripted_settings(URL, configured)["roles"]
    assert "executor" not in roles and roles["poet"]["model"] == MODEL


def test_variables_carry_numbers_and_texts_as_the_settings_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in as_variables({"lease_seconds": 10.0, "min_free_bytes": 5, "log_level": "debug"}).items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert (settings.lease_seconds, settings.min_free_bytes, settings.log_level) == (10.0, 5, "debug")

"""The annotated configuration names every setting, tells the truth about defaults, and loads."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from shared.base.settings import RoleSettings, Settings, load_settings

EXAMPLE = Path(__file__).parents[3] / "deploy" / "crw.toml.example"
_COMMENTED = re.compile(r"^#(\w+ = .*)$", re.MULTILINE)


def _names(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Dotted names of all settings; members of `roles.<role>` stand under `roles.executor`."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        inner = field.annotation
        if name == "roles":
            assert RoleSettings in get_args(inner)
            found |= _names(RoleSettings, f"{prefix}roles.executor.")
        elif isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= _names(inner, f"{prefix}{name}.")
        else:
            found.add(prefix + name)
    return found


def _flat(values: dict[str, Any], prefix: str, names: set[str]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        dotted = prefix + name
        if isinstance(value, dict) and dotted not in names:
            flat |= _flat(value, dotted + ".", names)
        else:
            flat[dotted] = value
    return flat


def _all_lines_on() -> str:
    return _COMMENTED.sub(r"\1", EXAMPLE.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CRW_DATABASE_URL", "CRW_BROKER_URL", "CRW_STATE_DIR", "CRW_HOST_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_the_example_names_every_setting_and_no_other() -> None:
    names = _names(Settings)
    shown = _flat(tomllib.loads(_all_lines_on()), "", names)
    shown = {name: value for name, value in shown.items() if not re.match(r"roles\.(?!executor\.)", name)}
    assert set(shown) == names


def test_the_example_loads_as_it_is_and_with_every_line_switched_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "crw.toml"
    for text in (EXAMPLE.read_text(encoding="utf-8"), _all_lines_on()):
        file.write_text(text, encoding="utf-8")
        monkeypatch.setenv("CRW_CONFIG", str(file))
        settings = load_settings()
    assert settings.flower.password and settings.codex.config["model_provider"] == "own"


def test_a_line_that_is_switched_on_shows_the_default() -> None:
    names = _names(Settings)
    written = _flat(tomllib.loads(EXAMPLE.read_text(encoding="utf-8")), "", names)
    defaults = _flat(Settings.model_construct(**{}).model_dump(mode="json"), "", names)
    for name, value in written.items():
        if name.startswith("roles."):
            value, default = value, RoleSettings().model_dump()[name.rsplit(".", 1)[1]]
        else:
            default = defaults[name]
        assert value == default, name


def test_every_setting_has_a_sentence_of_its_own_in_the_model() -> None:
    for model in (Settings, *(RoleSettings,)):
        for name, field in model.model_fields.items():
            is_table = isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
            assert is_table or field.description, name

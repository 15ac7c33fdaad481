"""What is installed is complete: setuptools takes packages alone, so every folder with modules is one."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from setuptools import find_packages

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("room", ["shared", "scheduler", "workers", "deploy"])
def test_every_folder_with_modules_is_a_package(room: str) -> None:
    folders = {path.parent for path in (ROOT / room).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_setuptools_finds_every_room_and_nothing_of_the_tests() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    found = find_packages(str(ROOT), include=settings["packages"]["find"]["include"])
    assert {name.split(".")[0] for name in found} == {"shared", "scheduler", "workers", "deploy"}
    assert "shared.journal.migrations.versions" in found and "deploy.demo" in found

"""What is installed is complete: setuptools takes packages alone, so every folder with modules is one."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools import find_packages

ROOT = Path(__file__).parents[3]
_PYTHONS = ("3.11", "3.12", "3.13")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("room", ["shared", "scheduler", "workers", "deploy"])
def test_every_folder_with_modules_is_a_package(room: str) -> None:
    folders = {path.parent for path in (ROOT / room).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_setuptools_finds_every_room_and_nothing_of_the_tests() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    found = find_packages(str(ROOT), include=settings["packages"]["find"]["include"])
    assert {name.split(".")[0] for name in found} == {"shared", "scheduler", "workers", "deploy"}
    assert "shared.journal.migrations.versions" in found and "deploy.demo" in found


def _needed() -> dict[str, list[Requirement]]:
    """Every distribution that an installation with all extras brings along on a supported Python, and what is asked."""
    found: dict[str, list[Requirement]] = {}
    optional = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    waiting = [(Requirement(line), "") for line in (*PROJECT["dependencies"], *optional)]
    while waiting:
        asked, extra = waiting.pop()
        if asked.marker is not None and not any(
            asked.marker.evaluate({"extra": extra, "python_version": python, "python_full_version": f"{python}.9"})
            for python in _PYTHONS
        ):
            continue
        name = canonicalize_name(asked.name)
        known = found.setdefault(name, [])
        if asked in known:
            continue
        known.append(asked)
        for line in requires(name) or ():
            waiting += [(Requirement(line), wanted) for wanted in ("", *asked.extras)]
    return found


def test_every_distribution_is_pinned_to_what_is_asked_of_it_and_no_other_is() -> None:
    pins = {canonicalize_name(name): pinned for name, pinned in PINS.items()}
    needed = _needed()
    assert sorted(needed.keys() ^ pins.keys()) == []
    unfit = [
        str(asked) for name, all_asked in needed.items() for asked in all_asked if pins[name] not in asked.specifier
    ]
    assert unfit == []


def test_every_dependency_says_what_it_is_for() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (block,) = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert [line for line in block.splitlines() if not re.search(r"# \w", line)] == []

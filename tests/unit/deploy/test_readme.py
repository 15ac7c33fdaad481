"""What the README shows is true: its links lead somewhere, its examples parse, its settings are settings."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import click
import pytest

from scheduler.cli.main import crw
from scheduler.flow.check import check
from scheduler.flow.literals import Known
from shared.base.settings import Settings

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_every_link_leads_to_a_file_of_the_repository() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links and [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("source", _blocks("python"))
def test_an_example_flow_is_a_script_with_main_in_which_the_check_finds_nothing(source: str, tmp_path: Path) -> None:
    functions = [node.name for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef)]
    assert functions == ["main"]
    (tmp_path / "flow.py").write_text(source, encoding="utf-8")
    assert check(tmp_path / "flow.py", Known()) == []


def test_the_settings_shown_are_accepted() -> None:
    (text,) = _blocks("toml")
    assert Settings(**tomllib.loads(text)).roles["executor"].model


@pytest.mark.parametrize("room", re.findall(r"^\| `([a-z/]+)`", README, re.MULTILINE))
def test_the_map_names_rooms_that_exist(room: str) -> None:
    assert (ROOT / room).is_dir()


def test_the_supported_pythons_are_the_ones_the_package_declares() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert wanted == ">=3.11,<3.14" and "Python 3.11 to 3.13" in README


@pytest.mark.parametrize(
    "words", sorted(set(re.findall(r"(?:`|CRW_CONFIG=\S+ |    |…/crw )crw ((?:flow|host|db) [a-z]+|[a-z]+)", README)))
)
def test_every_command_it_names_is_one(words: str) -> None:
    command: click.Command | None = crw
    for word in words.split():
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None, words

"""Every command explains itself: what it does, an example, a word on each option."""

from __future__ import annotations

import click
import pytest

from scheduler.cli.lazy import LazyGroup
from scheduler.cli.main import crw


def all_commands(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    found: list[tuple[str, click.Command]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"{path} {name} cannot be loaded"
        found.append((f"{path} {name}", command))
        if isinstance(command, click.Group):
            found += all_commands(command, f"{path} {name}")
    return found


COMMANDS = all_commands(crw, "crw")


def test_the_commands_are_those_that_the_design_names():
    assert {path.removeprefix("crw ") for path, command in COMMANDS if not isinstance(command, click.Group)} == {
        "demo", "up", "scheduler", "worker", "flower", "doctor",
        "host ls", "host login", *(f"host {name}" for name in ("drain", "undrain", "lost")),
        "db upgrade", "db accept-history",
        *(f"flow {name}" for name in ("start", "batch", "check", "ps", "show", "watch", "result")),
        *(f"flow {name}" for name in ("resume", "explain", "fork", "recover", "cancel", "clean")),
    }  # fmt: skip


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
def test_a_command_says_what_it_does_with_an_example_and_explains_its_options(path: str, command: click.Command):
    text = command.get_help(click.Context(command, info_name=path))
    if not isinstance(command, click.Group):
        assert path in text.partition("\n")[2], "an example below the usage line"
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{path} {option.opts[0]} has no word of help"


def test_the_table_s_line_and_the_command_tell_of_the_same_command():
    for path, command in COMMANDS:
        assert command.name == path.rpartition(" ")[2]
    assert isinstance(crw, LazyGroup)

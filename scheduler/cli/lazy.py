"""A click group that imports a command's module when the command is asked for.

`crw --help` lists every command without importing one, so it answers at once
however heavy a single command is.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group over a table `name -> (module, one line of help)`; the module offers `command`."""

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the table's order, which is the order a newcomer meets them."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and give its `command`."""
        if cmd_name not in self._table:
            return None
        command: click.Command = importlib.import_module(self._table[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with a near name in the refusal of an unknown one."""
        name = args[0]
        if not name.startswith("-") and name not in self._table:
            near = difflib.get_close_matches(name, self._table, 1)
            meant = f"did you mean '{ctx.command_path} {near[0]}'?" if near else f"there are: {', '.join(self._table)}"
            raise click.UsageError(f"'{ctx.command_path} {name}' is no command; {meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, written from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._table.items()])

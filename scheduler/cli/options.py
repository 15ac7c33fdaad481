"""Options and arguments that several commands share, spelled once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from shared.base.errors import UsageError
from shared.base.ids import RunId, is_run_id
from shared.base.strict_json import load_strict

json_option = click.option("--json", "as_json", is_flag=True, help="JSON objects, one a line, instead of text.")


class RunArgument(click.ParamType[RunId]):
    """A run id; anything else is refused before a database is asked."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> RunId:
        """Check the id's form."""
        if not is_run_id(str(value)):
            raise UsageError(f"{value!r} is no run id (r and 12 letters or digits); 'crw flow ps' lists the runs")
        return RunId(str(value))


run_argument = click.argument("run", type=RunArgument())


class HostArgument(click.ParamType[str]):
    """A host's name; an empty one is refused before a database is asked."""

    name = "host"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that there is something to look for."""
        if not str(value).strip():
            raise UsageError(f"{value!r} is no host's name; 'crw host ls' lists the hosts")
        return str(value)


host_argument = click.argument("name", type=HostArgument())


def parse_arguments(text: str | None, file: Path | None) -> Any:
    """The script's arguments: JSON given on the command line or in a file, `{}` when neither is.

    Raises:
        UsageError: both are given, the file cannot be read, or it is no JSON.
    """
    if text is not None and file is not None:
        raise UsageError("--args and --args-file are both given; keep one of them")
    source = "--args"
    if file is not None:
        source = str(file)
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the arguments file {file} cannot be read ({error}); name a JSON file") from None
    if text is None:
        return {}
    return parse_json(text, source)


def parse_json(text: str, source: str) -> Any:
    """JSON text as a value; `source` says in the refusal where it stands.

    Raises:
        UsageError: it is no JSON.
    """
    try:
        return load_strict(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{source} is not JSON: {error.msg} at line {error.lineno} column {error.colno}; "
            """write for instance --args '{"goal": "..."}'"""
        ) from None
    except RecursionError:
        raise UsageError(
            f"{source} is not JSON the farm reads: it is nested too deeply; put large inputs in the repository"
        ) from None
    except ValueError as error:
        # Python adds to some how a programmer would raise its limits.
        raise UsageError(f"{source} is not JSON the farm takes: {str(error).split(';')[0]}") from None

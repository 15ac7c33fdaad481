"""The operations a script may ask for with `flow.crw.<op>(...)`, and the shape of their arguments.

The scheduler validates against this table before anything is written; a worker
implements the ops whose place is `worker`. An op whose only effect is in Postgres
has the place `scheduler`: effect and row are one transaction there.
Source: journal document, "Ops"; design of the farm, "The flow script".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.base.canonical import canonical_bytes
from shared.base.errors import FlowError
from shared.base.ids import parse_node_id

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_MESSAGE_LIMIT_CHARACTERS = 20_000

Parse = Callable[[Any], Any]


@dataclass(frozen=True)
class Argument:
    """One argument of an op: how it is checked and brought into its stored form."""

    parse: Parse
    required: bool = False


@dataclass(frozen=True)
class OpShape:
    """What a script may say to an op.

    Shape:
        place: `worker` or `scheduler`, where the op runs.
        writes_node: the op changes the worktree of its node, so it waits for nobody and shares with nobody.
        rerunnable: a second run on another host, after the first one's host was lost, is harmless: it recognises
            its own effect, or has none outside its checkout.
        open_arguments: any JSON arguments are taken (the ops of tests and measurements).
    """

    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    place: str = "worker"
    writes_node: bool = False
    rerunnable: bool = False
    open_arguments: bool = False


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("is a text that is not empty")
    if len(value) > _MESSAGE_LIMIT_CHARACTERS or "\0" in value:
        raise ValueError(f"has at most {_MESSAGE_LIMIT_CHARACTERS} characters and no NUL")
    return value


def parse_commit(value: Any) -> str:
    """A commit as a script may name it: the full hexadecimal id, so that the same words mean the same commit later.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, str) or _COMMIT.fullmatch(value) is None:
        raise ValueError('is a full commit id in hex, for instance the ["commit"] of flow.crw.commit')
    return value


def _branch(value: Any) -> str:
    # What git would refuse later in a worker is refused here, at the script's line.
    text = _text(value)
    parts = text.split("/")
    bad = re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//", text) or text == "@" or text.startswith(("-", "refs/"))
    if bad or text.endswith((".", "/")) or any(part.startswith(".") or part.endswith(".lock") for part in parts):
        raise ValueError("is the name of a branch, for instance main")
    return text


def _regions(value: Any) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise ValueError("is a list of paths")
    for path in value:
        if not isinstance(path, str) or not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise ValueError("is a list of paths inside the repository")
    return list(value)


def _heads(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError("is an object of key to commit that is not empty, for instance what flow.parallel returned")
    return {_text(key): parse_commit(commit) for key, commit in value.items()}


_node = Argument(parse_node_id, required=True)
_optional_node = Argument(parse_node_id)

NOOP = OpShape("noop", rerunnable=True, open_arguments=True)
"""Does nothing on a worker. Only tests and measurements register it."""

OPS: dict[str, OpShape] = {
    shape.name: shape
    for shape in (
        OpShape(
            "commit",
            {"node": _node, "message": Argument(_text, required=True), "regions": Argument(_regions)},
            writes_node=True,
            rerunnable=True,
        ),
        OpShape(
            "verify",
            {
                "head": Argument(parse_commit, required=True),
                "command": Argument(_text, required=True),
                "node": _optional_node,
                "profile": Argument(_text),
            },
            rerunnable=True,
        ),
        OpShape(
            "integrate",
            {"heads": Argument(_heads, required=True), "target": Argument(_branch), "message": Argument(_text)},
            rerunnable=True,
        ),
        OpShape("clock", place="scheduler"),
    )
}


def register(shape: OpShape) -> None:
    """Add an op to the table of this process."""
    OPS[shape.name] = shape


def op_shape(name: str) -> OpShape:
    """The shape of an op.

    Raises:
        FlowError: no such op.
    """
    shape = OPS.get(name)
    if shape is None:
        raise FlowError(f"there is no op flow.crw.{name}; use one of {', '.join(sorted(OPS))}", op=name)
    return shape


def writes_node(name: str) -> bool:
    """Whether an op changes the worktree of its node; an op that is not known here does not."""
    shape = OPS.get(name)
    return shape is not None and shape.writes_node


def parse_arguments(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an op in the form they are stored: checked, absent and None ones left out.

    Raises:
        FlowError: unknown op or argument, one that is missing, or a value that does not fit.
    """
    shape = op_shape(name)
    given = {key: value for key, value in arguments.items() if value is not None}
    if shape.open_arguments:
        _require_json(name, given)
        return given
    for key in given:
        if key not in shape.arguments:
            takes = ", ".join(shape.arguments) or "no arguments"
            raise FlowError(f"flow.crw.{name} does not take {key}; it takes {takes}", op=name, argument=key)
    for key, argument in shape.arguments.items():
        if argument.required and key not in given:
            raise FlowError(f"flow.crw.{name} needs {key}=", op=name, argument=key)
    return {key: _parse(name, key, shape.arguments[key].parse, value) for key, value in given.items()}


def _parse(op: str, key: str, parse: Parse, value: Any) -> Any:
    try:
        return parse(value)
    except ValueError as error:
        raise FlowError(f"flow.crw.{op}: {key} {error}", op=op, argument=key) from None


def _require_json(name: str, arguments: Mapping[str, Any]) -> None:
    try:
        canonical_bytes(dict(arguments))
    except (TypeError, ValueError) as error:
        raise FlowError(f"flow.crw.{name}: its arguments are JSON values, but {error}", op=name) from None

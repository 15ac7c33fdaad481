"""The operations a script may ask for with `flow.crw.<op>(...)`, and the shape of their arguments.

The scheduler validates against this table before anything is written; a worker
implements the ops whose place is `worker`. An op whose only effect is in Postgres
has the place `scheduler`: effect and row are one transaction there.
Source: journal document, "Ops"; design of the farm, "The flow script".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.base.canonical import canonical_bytes
from shared.base.errors import FlowError
from shared.base.ids import parse_node_id
from shared.model.op_arguments import (
    parse_branch,
    parse_command,
    parse_commit,
    parse_heads,
    parse_regions,
    parse_result,
    parse_results,
    parse_text,
    parse_tiers,
)
from shared.model.review import parse_criteria, parse_findings, parse_verdict

Parse = Callable[[Any], Any]


@dataclass(frozen=True)
class Argument:
    """One argument of an op: how it is checked and brought into its stored form.

    Shape: `of_roles` its words are roles of the run.
    """

    parse: Parse
    required: bool = False
    of_roles: bool = False


@dataclass(frozen=True)
class OpShape:
    """What a script may say to an op.

    Shape:
        place: `worker` or `scheduler`, where the op runs.
        writes_node: the op changes the worktree of its node, so it waits for nobody and shares with nobody.
        rerunnable: a second run on another host, after the first one's host was lost, is harmless: it recognises
            its own effect, or has none outside its checkout.
        open_arguments: any JSON arguments are taken (the ops of tests and measurements).
        first: the argument that may stand without its name.
        members: argument -> its name as a member of the position's input beside the other arguments, so that
            `explain` names it where it differs.
    """

    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    place: str = "worker"
    writes_node: bool = False
    rerunnable: bool = False
    open_arguments: bool = False
    first: str | None = None
    members: Mapping[str, str] = field(default_factory=dict)


_node = Argument(parse_node_id, required=True)
_optional_node = Argument(parse_node_id)

NOOP = OpShape("noop", rerunnable=True, open_arguments=True)
"""Does nothing on a worker. Only tests and measurements register it."""

OPS: dict[str, OpShape] = {
    shape.name: shape
    for shape in (
        OpShape(
            "commit",
            {"node": _node, "message": Argument(parse_text, required=True), "regions": Argument(parse_regions)},
            writes_node=True,
            rerunnable=True,
        ),
        OpShape(
            "verify",
            {
                "head": Argument(parse_commit, required=True),
                "command": Argument(parse_command, required=True),
                "node": _optional_node,
                "profile": Argument(parse_text),
            },
            rerunnable=True,
        ),
        OpShape(
            "integrate",
            {
                "heads": Argument(parse_heads, required=True),
                "target": Argument(parse_branch),
                "message": Argument(parse_text),
            },
            rerunnable=True,
        ),
        OpShape("clock", place="scheduler"),
        OpShape("classify", {"result": Argument(parse_result, required=True)}, place="scheduler", first="result"),
        OpShape(
            "tier_step",
            {
                "node": _node,
                "history": Argument(parse_results, required=True),
                "tiers": Argument(parse_tiers, of_roles=True),
            },
            place="scheduler",
        ),
        OpShape(
            "review",
            {
                "head": Argument(parse_commit, required=True),
                "criteria": Argument(parse_criteria, required=True),
                "reviewer": Argument(parse_result, required=True),
                "verdict": Argument(parse_verdict, required=True),
                "findings": Argument(parse_findings),
                "node": _optional_node,
            },
            place="scheduler",
            members={"head": "head", "criteria": "criteria_digest"},
        ),
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


def by_name(name: str, given: Sequence[Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an op by their names; only an op with a `first` one takes that without.

    Raises:
        FlowError: there are more than it takes without a name, or one stands twice.
    """
    first = op_shape(name).first
    if not given:
        return dict(arguments)
    if first is None or len(given) > 1 or first in arguments:
        raise FlowError(f"flow.crw.{name} takes its arguments by name", op=name)
    return {first: given[0], **arguments}


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

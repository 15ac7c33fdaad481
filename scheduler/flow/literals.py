"""What a script says as literals that the engine would refuse when the line runs.

Only what is certain is judged: a role, effort, model, node, op name, argument name
or schema that stands in the file as written. The rest is checked at the script's
line, before anything is written.
Source: decisions, "Scripts and ops".
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from shared.base.errors import FlowError
from shared.base.ids import parse_node_id
from shared.model.ops import OPS
from shared.model.roles import BUILT_IN_ROLES, EFFORTS, EXECUTOR_ROLES
from shared.model.schema import schema_faults


@dataclass(frozen=True)
class Known:
    """What the settings of the submitter know.

    Shape: `roles` the names a script may use; `models` the provider's catalogue,
    empty when any name is taken.
    """

    roles: Collection[str] = BUILT_IN_ROLES
    models: Collection[str] = ()


Error = tuple[int, str]
_UNKNOWN: Any = object()


def literal_errors(tree: ast.Module, known: Known) -> Iterator[Error]:
    """The errors of one file as `(line, sentence)`."""
    constants = _constants(tree)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        target = node.func.value
        if isinstance(target, ast.Attribute) and target.attr == "crw":
            yield from _op(node, node.func.attr, known, constants)
        elif node.func.attr == "agent" and isinstance(target, ast.Name):
            yield from _agent(node, known, constants)
        elif node.func.attr == "call" and any(keyword.arg == "schema" for keyword in node.keywords):
            yield from _schema(node, _literal(node, "schema", constants))


def roles_named(tree: ast.Module) -> set[str]:
    """The roles that stand in a file as literals: what a submit must have a model for."""
    constants = _constants(tree)
    named: list[Any] = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr == "agent":
            named.append(_literal(node, "role", constants))
        elif node.func.attr in OPS:
            of_roles = [name for name, rule in OPS[node.func.attr].arguments.items() if rule.of_roles]
            named += [role for name in of_roles for role in _listed(_literal(node, name, constants))]
    return {role for role in named if isinstance(role, str)}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Module-level names that are bound once, to a literal."""
    values: dict[str, Any] = {}
    bound: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[node.id] = bound.get(node.id, 0) + 1
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name) and bound.get(target.id) == 1:
            literal = _evaluate(value, values)
            if literal is not _UNKNOWN:
                values[target.id] = literal
    return values


def _evaluate(node: ast.expr, constants: dict[str, Any]) -> Any:
    """A literal's value, names of earlier constants included; `_UNKNOWN` when it is none."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id, _UNKNOWN)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _evaluate(node.operand, constants)
        return -inner if isinstance(inner, (int, float)) else _UNKNOWN
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_evaluate(item, constants) for item in node.elts]
        return _UNKNOWN if any(item is _UNKNOWN for item in items) else items
    if isinstance(node, ast.Dict):
        keys = [_UNKNOWN if key is None else _evaluate(key, constants) for key in node.keys]
        members = [_evaluate(value, constants) for value in node.values]
        if any(part is _UNKNOWN for part in (*keys, *members)) or not all(isinstance(key, str) for key in keys):
            return _UNKNOWN
        return dict(zip(keys, members, strict=True))
    return _UNKNOWN


def _literal(call: ast.Call, name: str, constants: dict[str, Any]) -> Any:
    for keyword in call.keywords:
        if keyword.arg == name:
            return _evaluate(keyword.value, constants)
    return _UNKNOWN


def _agent(call: ast.Call, known: Known, constants: dict[str, Any]) -> Iterator[Error]:
    names = {keyword.arg for keyword in call.keywords}
    if "role" not in names and None not in names:
        yield call.lineno, f"flow.agent needs role=; use one of {', '.join(sorted(known.roles))}"
    role = _literal(call, "role", constants)
    if role is not _UNKNOWN and role not in known.roles:
        yield call.lineno, f"there is no role {role!r}; use one of {', '.join(sorted(known.roles))}"
    if isinstance(role, str) and role in EXECUTOR_ROLES and "node" not in names and None not in names:
        yield call.lineno, f"role {role} works in a node's worktree; give it node="
    effort = _literal(call, "effort", constants)
    if effort is not _UNKNOWN and effort is not None and effort not in EFFORTS:
        yield call.lineno, f"there is no effort {effort!r}; use one of {', '.join(EFFORTS)}"
    model = _literal(call, "model", constants)
    if known.models and model is not _UNKNOWN and model is not None and model not in known.models:
        yield call.lineno, f"there is no model {model!r}; use one of {', '.join(sorted(known.models))}"
    yield from _node(call, constants)
    yield from _schema(call, _literal(call, "schema", constants))


def _node(call: ast.Call, constants: dict[str, Any]) -> Iterator[Error]:
    node = _literal(call, "node", constants)
    if node is _UNKNOWN or node is None:
        return
    try:
        parse_node_id(node)
    except FlowError as error:
        yield call.lineno, str(error)


def _schema(call: ast.Call, schema: Any) -> Iterator[Error]:
    if schema is _UNKNOWN or schema is None:
        return
    for path, sentence in schema_faults(schema):
        yield call.lineno, f"the schema cannot be used: {path} {sentence}"
        return


def _op(call: ast.Call, name: str, known: Known, constants: dict[str, Any]) -> Iterator[Error]:
    shape = OPS.get(name)
    if shape is None:
        yield call.lineno, f"there is no op flow.crw.{name}; use one of {', '.join(sorted(OPS))}"
        return
    names = {keyword.arg for keyword in call.keywords}
    values = {argument: _literal(call, argument, constants) for argument in shape.arguments}
    if call.args and (shape.first is None or len(call.args) > 1 or shape.first in names):
        yield call.lineno, f"flow.crw.{name} takes its arguments by name"
    elif call.args and shape.first is not None:
        names.add(shape.first)
        values[shape.first] = _evaluate(call.args[0], constants)
    if shape.open_arguments or None in names:
        return
    for keyword in sorted(filter(None, names - shape.arguments.keys())):
        yield call.lineno, f"flow.crw.{name} does not take {keyword}; it takes {', '.join(shape.arguments)}"
    for argument, rule in shape.arguments.items():
        if rule.required and argument not in names:
            yield call.lineno, f"flow.crw.{name} needs {argument}="
        value = values[argument]
        if value is _UNKNOWN or value is None:
            continue
        try:
            parsed = rule.parse(value)
        except (ValueError, FlowError) as error:
            yield call.lineno, f"flow.crw.{name}: {argument} {error}"
            continue
        for role in parsed if rule.of_roles else ():
            if role not in known.roles:
                yield call.lineno, f"there is no role {role!r}; use one of {', '.join(sorted(known.roles))}"

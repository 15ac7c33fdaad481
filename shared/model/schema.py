"""The strict rules a provider asks of an answer's schema, checked before anything is sent.

The App Server passes any schema on; the provider then refuses the turn. So the
rules are held here: at submit for schemas that stand in the script, at the
script's line for the others.
Source: definition of null_model and repair ("A schema is checked at submit").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from shared.base.canonical import canonical_bytes
from shared.base.errors import FlowError

_MAX_DEPTH = 10
_UNSUPPORTED = frozenset(
    {
        "allOf", "not", "if", "then", "else", "oneOf", "dependentRequired", "dependentSchemas",
        "patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contains", "prefixItems",
    }
)  # fmt: skip
_DESCRIBES = ("type", "enum", "const", "anyOf", "$ref")


def check_schema(schema: Any) -> None:
    """Refuse a schema that the provider would refuse.

    Raises:
        FlowError: the sentence names the path of the first member at fault.
    """
    for path, sentence in schema_faults(schema):
        raise FlowError(f"the schema cannot be used: {path} {sentence}", path=path)


def schema_faults(schema: Any) -> Iterator[tuple[str, str]]:
    """Every fault of a schema as `(path, what is wrong and how to mend it)`."""
    if not isinstance(schema, Mapping):
        yield "$", f"is a {type(schema).__name__}, not an object"
        return
    try:
        canonical_bytes(dict(schema))
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield _dotted(error.absolute_path), f"is no JSON Schema: {error.message}"
        return
    except (TypeError, ValueError) as error:
        yield "$", f"is no JSON value: {error}"
        return
    if schema.get("type") != "object":
        yield "$", 'must be {"type": "object", ...}: the answer is always an object'
        return
    yield from _walk(schema, "$", 0)


def _dotted(parts: Any) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _walk(schema: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, Mapping):
        yield path, "must be an object that says what it allows, not true or false"
        return
    if depth > _MAX_DEPTH:
        yield path, f"is nested deeper than {_MAX_DEPTH} levels"
        return
    if not any(word in schema for word in _DESCRIBES):
        yield path, 'allows anything: give it a "type"'
        return
    for word in sorted(_UNSUPPORTED & schema.keys()):
        yield path, f'uses "{word}", which strict answers do not support; use "anyOf" or plain properties'
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if "object" in kinds or "properties" in schema:
        yield from _object(schema, path, depth)
    if "array" in kinds:
        if "items" not in schema:
            yield path, 'is an array without "items"'
        else:
            yield from _walk(schema["items"], f"{path}.items", depth + 1)
    for index, choice in enumerate(schema.get("anyOf", ())):
        yield from _walk(choice, f"{path}.anyOf[{index}]", depth + 1)
    for word in ("$defs", "definitions"):
        for name, definition in schema.get(word, {}).items():
            yield from _walk(definition, f"{path}.{word}.{name}", depth + 1)


def _object(schema: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, str]]:
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is not False:
        yield path, 'needs "additionalProperties": false'
    required = schema.get("required", [])
    missing = sorted(set(properties) - set(required))
    if missing:
        yield path, f'must list every property in "required"; {", ".join(missing)} is not (allow null instead)'
    unknown = sorted(set(required) - set(properties))
    if unknown:
        yield path, f"requires {', '.join(unknown)}, which is no property of it"
    for name, member in properties.items():
        yield from _walk(member, f"{path}.properties.{name}", depth + 1)

"""What a provider would refuse is refused here, by path."""

import pytest

from shared.base.errors import FlowError
from shared.model.schema import check_schema

GOOD = {
    "type": "object",
    "additionalProperties": False,
    "required": ["nodes", "note"],
    "properties": {
        "nodes": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["id"],
                "properties": {"id": {"type": "string"}},
            },
        },
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}


def test_a_strict_schema_is_taken():
    check_schema(GOOD)


def changed(path, value):
    def copy(node, rest):
        if not rest:
            return value
        return {**node, rest[0]: copy(node[rest[0]], rest[1:])}

    return copy(GOOD, path)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({}, r"\$ "),
        ("text", r"\$ is a str"),
        ({"type": "array", "items": {"type": "string"}}, r"\$ must be"),
        (changed(["additionalProperties"], True), r"\$ needs"),
        (changed(["required"], ["nodes"]), r"note is not"),
        (changed(["required"], ["nodes", "note", "x"]), r"requires x"),
        (changed(["properties", "note"], {}), r"\$\.properties\.note allows anything"),
        (changed(["properties", "note"], True), r"\$\.properties\.note must be an object"),
        (changed(["properties", "nodes", "items"], {"type": "object"}), r"\$\.properties\.nodes\.items needs"),
        (changed(["properties", "note"], {"type": "array"}), r"\$\.properties\.note is an array"),
        (changed(["properties", "note"], {"type": "strin"}), r"\$\.properties\.note\.type is no JSON Schema"),
        (changed(["properties", "note"], {"type": "string", "oneOf": []}), r"note"),
        (changed(["properties", "note"], {"type": "number", "maximum": float("nan")}), r"no JSON value"),
    ],
)
def test_a_schema_a_provider_would_refuse_is_refused_with_its_path(schema, path):
    with pytest.raises(FlowError, match=path):
        check_schema(schema)

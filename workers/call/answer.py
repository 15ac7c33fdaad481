"""What a turn's answer is worth: parsed, held against the call's schema, kept as the model wrote it.

Source: definition of null_model and repair; design of the farm, "Bytes".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema

from shared.base import canonical
from workers.appserver import unwrap_answer

_SHOWN_ERRORS = 8


@dataclass(frozen=True)
class Judged:
    """A judged answer. `result` is what the journal stores; None means `errors` say why it is no answer."""

    result: bytes | None
    errors: tuple[str, ...] = ()


def judge_answer(text: str, schema: Mapping[str, Any] | None) -> Judged:
    """Hold an answer against the call's schema.

    With a schema the result is the model's own text, byte for byte. Without one
    the answer travelled inside the wrapper `{"answer": string}`; a provider that
    does not enforce schemas may have sent the bare text, which is then the answer.
    """
    if schema is None:
        return Judged(unwrap_answer(text).encode("utf-8", "surrogatepass"))
    try:
        canonical.canonical_bytes(canonical.parse(text))
        value = json.loads(text)
    except ValueError as error:
        return Judged(None, (f"the answer is no JSON: {error}",))
    validator = jsonschema.Draft202012Validator(schema)
    errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    if errors:
        return Judged(None, tuple(_sentence(error) for error in errors[:_SHOWN_ERRORS]))
    return Judged(text.encode("utf-8", "surrogatepass"))


def _sentence(error: jsonschema.ValidationError) -> str:
    message = error.message if len(error.message) <= 300 else error.message[:300] + "…"
    return f"{error.json_path}: {message}"

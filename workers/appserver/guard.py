"""The schema that makes the server refuse a second send. Pure.

A turn/start on a thread with a running turn is a silent steer, and nothing removes
duplicates. But a schema that differs from the running turn's is refused. So every
send carries a schema, and each schema says in its description whose it is; a call
without one gets a wrapper that asks for `{"answer": string}`. The guard is added
here, at the send: it is no part of the call's input digest.
Source: facts of the App Server, "Duplicate sends"; settled conflicts of the send.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_WRAPPER: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "description": "your whole answer"}},
    "required": ["answer"],
    "additionalProperties": False,
}


def guard_schema(schema: Mapping[str, Any] | None, operation: str, nonce: str) -> dict[str, Any]:
    """The schema a turn is sent with: the call's own or the wrapper, marked as this one send's."""
    guarded = dict(_WRAPPER if schema is None else schema)
    mark = f"[send {operation} {nonce}]"
    described = str(guarded.get("description") or "")
    guarded["description"] = f"{described} {mark}" if described else mark
    return guarded


def unwrap_answer(text: str) -> str:
    """The text of a call that asked for no schema.

    A provider that pays no heed to schemas answers in plain text, and plain text is
    all that such a call asked for: it is taken as it stands.
    """
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(answer, dict) and set(answer) == {"answer"} and isinstance(answer["answer"], str):
        return answer["answer"]
    return text

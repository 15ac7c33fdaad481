"""A turn's operation `<call id>/t<k>`: how a turn of ours is recognised on the host.

It is sent as `clientUserMessageId` and again as the first line of the input, and
read back in that order. Source: App Server document, "The App Server backend";
session host document, "The answer, the marker and the tokens".
"""

from __future__ import annotations

import re

_LINE = "crw-flow-op: "
_OPERATION = re.compile(r"(c[a-z2-7]{24})/t([1-9][0-9]*)")


def turn_operation(call_id: str, ordinal: int) -> str:
    """The operation of a call's turn number `ordinal` (from 1)."""
    return f"{call_id}/t{ordinal}"


def marker_line(operation: str) -> str:
    """The first input line that names an operation."""
    return _LINE + operation


def parse_operation(text: str | None) -> tuple[str, int] | None:
    """`(call id, ordinal)` of an operation, or None when the text is none."""
    match = _OPERATION.fullmatch(text or "")
    return (match[1], int(match[2])) if match else None


def read_marker(client_id: str | None, first_message: str | None) -> str | None:
    """The operation of a turn, from its first user message's client id, else from that message's first line."""
    if parse_operation(client_id):
        return client_id
    first_line = (first_message or "").split("\n", 1)[0]
    candidate = first_line.removeprefix(_LINE)
    return candidate if first_line.startswith(_LINE) and parse_operation(candidate) else None

"""Identifiers: what they look like and what they are digests of.

A call's id and its request ids are functions of the run and of where the call
stands in the script, so that every process that gets there names them alike.
Source: design of the farm, "The life of a call"; definitions of positions and ids.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import NewType

from shared.base.errors import FlowError

RunId = NewType("RunId", str)
CallId = NewType("CallId", str)
RequestId = NewType("RequestId", str)
NodeId = NewType("NodeId", str)
HostName = NewType("HostName", str)

# The version stands inside every digest: another rule makes other ids, never the same by accident.
_VERSION = "1"
_RUN = re.compile(r"r[a-z2-7]{12}")
_CALL = re.compile(r"c[a-z2-7]{24}")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def tagged_digest(tag: str, *parts: str | int) -> bytes:
    """sha-256 over a tag and parts, each with its length in front, so that no two tuples collide."""
    state = hashlib.sha256()
    for part in (tag, _VERSION, *map(str, parts)):
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "big"))
        state.update(raw)
    return state.digest()


def _base32(raw: bytes, characters: int) -> str:
    # Eight characters come of five bytes: only those that are asked for are encoded.
    return base64.b32encode(raw[: -(-characters // 8) * 5]).decode("ascii").lower()[:characters]


def new_run_id() -> RunId:
    """A random run id: `r` and 12 base32 characters."""
    return RunId("r" + _base32(secrets.token_bytes(8), 12))


def is_run_id(text: str) -> bool:
    """Whether the text has a run id's form."""
    return _RUN.fullmatch(text) is not None


def is_call_id(text: str) -> bool:
    """Whether the text has a call id's form."""
    return _CALL.fullmatch(text) is not None


def call_id(run: str, path: str, position: int) -> CallId:
    """The id of the call at a position: `c` and 24 base32 characters, the same in every process."""
    return CallId("c" + _base32(tagged_digest("call", run, path, position), 24))


def request_id(run: str, call: str, ended_attempts: int = 0) -> RequestId:
    """The id under which whoever is asked recognises a request that comes again.

    Args:
        ended_attempts: how many attempts of this call ended before; 0 gives the first request's id.
    """
    if ended_attempts == 0:
        return RequestId("q" + _base32(tagged_digest("request", run, call), 24))
    return RequestId("q" + _base32(tagged_digest("attempt-request", run, call, ended_attempts), 24))


def parse_node_id(text: str) -> NodeId:
    """A node id as the script gave it (often a model's word): it enters paths and refs, so it is checked.

    Raises:
        FlowError: it is not 1 to 64 letters, digits, `_` or `-`, beginning with a letter or digit.
    """
    if not isinstance(text, str) or _NODE.fullmatch(text) is None:
        raise FlowError(
            f"node id {text!r} is not usable: use 1 to 64 letters, digits, '_' or '-', first a letter or digit",
            node=text,
        )
    return NodeId(text)

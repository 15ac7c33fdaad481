"""What a refusal of the server says about a thread. Pure.

Source: facts of the App Server, "Threads" and "thread/fork".
"""

from __future__ import annotations

import re

from shared.base.errors import Refused

_EMPTY = re.compile(r"rollout at .* is empty")
# How the server says that there is nothing to go on in: the texts are all that tells these refusals apart.
_GONE = (
    ("thread_missing", re.compile(r"no rollout found for thread id|thread not loaded: |thread not found: ")),
    ("thread_missing", _EMPTY),
    ("thread_missing", re.compile(r"invalid paginated history lineage for \S+: missing source rollout")),
    ("thread_unreadable", re.compile(r"rollout at .* does not start with session metadata")),
    # What is left of it ends before the turns that the server has on record: a power cut takes what was not synced.
    ("thread_unreadable", re.compile(r"durable rollout shrank before projection")),
    ("thread_archived", re.compile(r"session \S+ is archived")),
    ("turn_missing", re.compile(r"turn not found: |identifies an in-progress turn")),
)


def why_gone(refusal: Refused) -> str | None:
    """Why a thread can be neither resumed nor forked, as the server's refusal says; None for any other refusal."""
    return next((word for word, said in _GONE if said.search(_text(refusal))), None)


def has_no_line(refusal: Refused) -> bool:
    """Whether the server refuses a thread since its file has no line: a kill behind its first turn can leave it so."""
    return _EMPTY.search(_text(refusal)) is not None


def _text(refusal: Refused) -> str:
    return str(refusal.facts.get("text") or refusal)

"""The composite types of `crw_append`, and entries written as Postgres reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# By their members in order, as the migrations made them.
COMPOSITES = {
    "crw_claim_part": ("call", "fence", "wrote", "n", "sends", "terminal", "attempt", "takes"),
    "crw_run_part": (
        "run", "n", "sched", "turns", "intent", "progress", "finish", "scheduler", "epoch", "wrote",
    ),
    "crw_call_row": (
        "r", "k", "d", "run", "call", "path", "position", "attempt", "kind", "event", "terminal", "fence", "request",
        "node", "role", "label", "commit_sha", "thread_id", "turn_id", "operation", "worktree_kind", "worktree_path",
        "start_commit", "allocation", "pending_tree", "held_tree", "snapshot_digest", "input_state", "tokens",
        "result_bytes", "result_digest", "result_ref",
    ),
    "crw_event_row": ("r", "k", "d", "run", "event", "path", "position", "op", "label"),
    "crw_open_part": (
        "run", "call", "node", "path", "position", "kind", "role", "label", "effect", "request", "attempt", "pin",
        "deadline", "held",
    ),
}  # fmt: skip
# What a row has only within its group stands first: the number of its run, of the row there, of its detail.
NUMBERS = ("r", "k", "d")
_PLACES = {
    name: {member: place for place, member in enumerate(member for member in members if member not in NUMBERS)}
    for name, members in COMPOSITES.items()
}
_PLAIN = re.compile(r'[^,()"\\]+').fullmatch


def composite(name: str, entry: Mapping[str, Any]) -> str:
    """An entry without its numbers, `text,1,True,,…`, as it stands in an `array`; what it has not is null.

    Source: PostgreSQL documentation, "Composite Type Input and Output Syntax".
    """
    places = _PLACES[name]
    texts = [""] * len(places)
    # Over what the entry has, not over all members: a row has half of them (measured: half the time).
    for member, value in entry.items():
        if value is not None and member in places:
            texts[places[member]] = _member(value) if isinstance(value, str) else str(value)
    return ",".join(texts)


def array(composites: Sequence[str]) -> str:
    """Composites as one text: psycopg2 takes longer for a list of texts than it took to make them."""
    return '{"(' + ')","('.join(composites) + ')"}' if composites else "{}"


def _member(value: str) -> str:
    # The first look is the cheaper one, and is enough for a digest and a word.
    if value.isalnum() or _PLAIN(value):
        return value
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '""') + '"'
    return quoted.replace("\\", "\\\\").replace('"', '\\"')

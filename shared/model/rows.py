"""Journal rows as values: what is given to the writer and what a reader gets back.

Shape of a call row: `kind` is `agent` or the op, `event` the row's word; the plain
columns are for readers that do not open `detail`. The result of a call is stored
once, as the model's own bytes, and never inside `detail`.
Source: journal document, "Persistence".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace


@dataclass(frozen=True)
class NewCallRow:
    """A row of a call, before the journal gave it its number.

    Shape: `event` one of the call words of `events.ROW_KINDS`; `detail` JSON data
    without members that start with `_`; the other members fill plain columns.
    `result` is the answer's bytes (terminal rows only).
    """

    event: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    role: str | None = None
    label: str | None = None
    commit_sha: str | None = None
    thread_id: str | None = None
    turn_id: str | None = None
    operation: str | None = None
    worktree_kind: str | None = None
    worktree_path: str | None = None
    start_commit: str | None = None
    allocation: int | None = None
    pending_tree: str | None = None
    held_tree: str | None = None
    snapshot_digest: str | None = None
    input_state: str | None = None
    tokens: int | None = None
    result: bytes | None = None


@dataclass(frozen=True)
class NewEventRow:
    """A row of the run or its flow, before the journal gave it its number.

    Shape: `kind` a flow or run word; `path`/`position` where the script stands;
    `op` and `label` optional; `data` JSON without members that start with `_`.
    """

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None
    position: int | None = None
    op: str | None = None
    label: str | None = None


class CallRow(Struct, frozen=True, gc=False):
    """A stored row of a call. `result` is None in lean reading even where one is stored.

    A struct, since a resume makes many ten thousand of them: as dataclasses they took longer than reading them. The
    garbage collector need not look at them, since JSON is never part of a cycle.
    """

    run_id: str
    seq: int
    call_id: str
    path: str
    position: int
    attempt: int
    kind: str
    event: str
    fence: int | None
    request_id: str
    node_id: str | None
    role: str | None
    label: str | None
    commit_sha: str | None
    thread_id: str | None
    turn_id: str | None
    operation: str | None
    worktree_kind: str | None
    worktree_path: str | None
    start_commit: str | None
    allocation: int | None
    pending_tree: str | None
    held_tree: str | None
    snapshot_digest: str | None
    input_state: str | None
    tokens: int | None
    result_bytes: int | None
    result_digest: str | None
    host: str | None
    written_at: datetime
    detail: Mapping[str, Any]
    result: bytes | None = None

    def with_result(self, result: bytes | None) -> CallRow:
        """The same row with another result, or without one."""
        return replace(self, result=result)


class EventRow(Struct, frozen=True, gc=False):
    """A stored row of the run or its flow."""

    run_id: str
    seq: int
    kind: str
    path: str | None
    position: int | None
    op: str | None
    label: str | None
    written_at: datetime
    data: Mapping[str, Any]


Row = CallRow | EventRow

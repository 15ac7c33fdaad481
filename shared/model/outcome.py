"""How a call ended, as the script and everybody else sees it.

Source: design of the farm, "The flow script"; journal document, "The replayed CallResult".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

# Why a call was refused, held or taken back, where others decide by the word: rows keep it, so it never changes.
PAIR_REFUSED = "pair_refused"
WORKTREE_FAILED = "worktree_failed"
RESULT_NOT_STORABLE = "result_not_storable"
# A turn that may only read changed the directory it looked at.
REPOSITORY_CHANGED = "repository_changed"
# A restored worktree changed before its first turn: its node stops for the run.
RESTORE_MISMATCH = "restore_snapshot_mismatch"
SUPERSEDED_BY_RESUME = "superseded_by_resume"
# A worker ended the call since its run is to stop.
CANCELLED = "cancel"
# What kept a held call from going on in place was found only where it stood: it runs again from the boundary.
HELD_HOST_LOST = "host_lost"
HELD_STATE_CHANGED = "held_state_changed"
GIVES_WAY = frozenset({HELD_HOST_LOST, HELD_STATE_CHANGED})


class Status(StrEnum):
    """The statuses of an ended call. A call that did not complete is a result, not an exception."""

    COMPLETED = "completed"
    NULL_MODEL = "null_model"
    REFUSED = "refused"
    HELD = "held"
    OUTCOME_UNKNOWN = "outcome_unknown"
    SUPERSEDED = "superseded"
    WITHDRAWN = "withdrawn"


class Meta(Struct, frozen=True, gc=False):
    """What the rows of a call say about it.

    Shape: `requested` and `configured` are `(model, effort)` pairs; `turns` the
    number of turns sent; `repair` whether the repair turn was; `tokens` the sum
    over its turns; `first_seq`/`last_seq` of the newest attempt; `head` the commit
    that its directory began at.
    """

    call_id: str
    kind: str
    role: str | None = None
    requested: tuple[str, str] | None = None
    configured: tuple[str, str] | None = None
    thread_id: str | None = None
    turn_id: str | None = None
    turns: int = 0
    repair: bool = False
    tokens: int | None = None
    first_seq: int = 0
    last_seq: int = 0
    host: str | None = None
    node_id: str | None = None
    attempt: int = 0
    head: str | None = None


class Ended(Struct, frozen=True):
    """The newest attempt of a call, ended. `output` is the parsed answer (None unless completed)."""

    status: Status
    output: Any
    reason: str | None
    meta: Meta
    result_digest: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the call completed."""
        return self.status is Status.COMPLETED

    def identity(self) -> dict[str, Any]:
        """What of it is the input of a call that is given it: all that it rests on, and no name that a fork changes."""
        meta = self.meta
        members = {
            "kind": meta.kind, "role": meta.role, "node": meta.node_id, "status": str(self.status),
            "reason": self.reason, "turn": meta.turn_id, "result_digest": self.result_digest,
        }  # fmt: skip
        return {name: member for name, member in members.items() if member is not None}

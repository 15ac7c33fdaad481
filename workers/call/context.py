"""What an agent call is, read from the journal alone: the message that woke the worker carried ids only.

Source: design of the farm, "The life of a call".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from shared.base.errors import StoreError
from shared.journal import read
from shared.journal.append import Claim
from shared.model.call_state import CallState, read_call_state
from shared.model.roles import Role
from shared.model.rows import CallRow
from shared.model.spec import RunSpec
from workers.worker import Worker


@dataclass(frozen=True)
class AgentCall:
    """One attempt of an agent call, as it was prepared.

    Shape:
        role: the role with the pair this call asked for.
        rows: the rows of this attempt so far; more than `prepared` only when an earlier worker began it.
        node_rows: what the journal knows of the call's node (placed, terminal rows of executors and commits).
        previous: the rows of the call whose conversation goes on; empty for a call that starts a thread.
    """

    claim: Claim
    spec: RunSpec
    role: Role
    prompt: str
    schema: Mapping[str, Any] | None
    head: str | None
    context: Mapping[str, Any]
    rows: Sequence[CallRow]
    node_rows: Sequence[CallRow]
    previous: Sequence[CallRow]

    @cached_property
    def state(self) -> CallState:
        """How far an earlier holder brought this attempt."""
        return read_call_state(self.rows)

    @property
    def executes(self) -> bool:
        """Whether it works in its node's worktree, whose state its terminal row records."""
        return self.role.writes and self.claim.node_id is not None

    @property
    def continues(self) -> bool:
        """Whether the call goes on in the thread of an earlier call."""
        return bool(self.context["kind"] == "continue")

    @property
    def prepared(self) -> CallRow:
        """The row that opened this attempt."""
        return self.rows[0]


def load_agent_call(worker: Worker, claim: Claim) -> AgentCall:
    """Read one claimed agent call.

    Raises:
        StoreError: the journal has no prepared row for the claim's attempt.
    """
    database, spec = worker.database, worker.load_spec(claim.run_id)
    rows = [row for row in read.load_call(database, claim.call_id) if row.attempt == claim.attempt]
    if not rows or rows[0].event != "prepared":
        raise StoreError(f"call {claim.call_id} has no prepared row for attempt {claim.attempt}")
    detail = rows[0].detail
    model, effort = detail["pair"]
    context = detail["context"]
    return AgentCall(
        claim=claim,
        spec=spec,
        role=replace(spec.roles[detail["role"]], model=model, effort=effort),
        prompt=detail["prompt"],
        schema=detail["schema"],
        head=detail["head"],
        context=context,
        rows=rows,
        node_rows=read.load_node(database, claim.run_id, claim.node_id) if claim.node_id else (),
        previous=read.load_call(database, context["call"]) if context["kind"] == "continue" else (),
    )

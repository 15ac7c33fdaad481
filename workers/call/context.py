"""What an agent call is, read from the journal alone: the message that woke the worker carried ids only.

Source: design of the farm, "The life of a call".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from shared.base.errors import StoreError
from shared.hub.refs import pending_ref
from shared.journal import read
from shared.journal.append import Claim
from shared.model.boundary import Boundary
from shared.model.call_state import CallState, begins_attempt, read_call_state
from shared.model.events import TERMINAL_WORDS
from shared.model.operation import parse_operation
from shared.model.roles import Role
from shared.model.rows import CallRow
from shared.model.spec import RunSpec
from shared.model.unpushed import Unpushed
from workers.worker import Worker

_OPENINGS = ("prepared", "hold_cleared")


@dataclass(frozen=True)
class AgentCall:
    """One attempt of an agent call, as it was prepared.

    Shape:
        role: the role with the pair this call asked for.
        rows: the rows from the newest `prepared` on, over the attempts that went on in place behind it.
        history: all rows of the call, those of earlier attempts too.
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
    history: Sequence[CallRow] = ()

    @cached_property
    def state(self) -> CallState:
        """How far an earlier holder brought this attempt."""
        return read_call_state(self.rows)

    @cached_property
    def turns_before(self) -> int:
        """The newest ordinal of a turn that earlier attempts sent: no later one repeats it."""
        return max((turn[1] for row in self._earlier if (turn := parse_operation(row.operation))), default=0)

    @cached_property
    def creations_before(self) -> int:
        """How many threads earlier attempts asked for."""
        return sum(row.event in ("thread_requested", "fork_requested") for row in self._earlier)

    @property
    def _earlier(self) -> Sequence[CallRow]:
        return [row for row in self.history if row.seq < self.rows[0].seq]

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
        """The row that says what is asked."""
        return self.rows[0]

    @property
    def boundary(self) -> Boundary | None:
        """What the scheduler says the node's next worktree has to hold; None when nothing is to be restored."""
        return Boundary.read(self.prepared.detail.get("boundary"))

    @property
    def lineage(self) -> int:
        """Which process of the run opened it, or let it go on in place: 0 the first, one more for each resume."""
        told = [row.detail["lineage"] for row in self.rows if row.event in _OPENINGS and "lineage" in row.detail]
        return int(told[-1]) if told else 0

    @property
    def unpushed(self) -> Unpushed | None:
        """What the call was held with on this host alone, while it goes on in place behind that."""
        held = [row for row in self.rows if row.event == "held"]
        return Unpushed.read(held[-1]) if held and self.state.cleared is not None else None

    @property
    def answer_digest(self) -> str | None:
        """The answer of a call that goes on in place with nothing left to do but to push its work; else None."""
        return self.unpushed.result if self.unpushed is not None else None

    @property
    def earlier_pending(self) -> str | None:
        """The commit that the call's next state is made on: its last end's with a tree; None before the first.

        The pending ref named it, or was to. Where nothing but its push is left of a state, it is that very commit that
        is made again, on the one before. What an earlier request left on its host alone counts for nothing: this one
        may run on another host, which cannot have it.
        """
        ref, pushed, kept = pending_ref(self.claim.run_id, self.claim.call_id), None, None
        in_place = {row.seq for row in self.rows}
        for row in self.history:
            if row.event == "push_requested" and row.detail.get("ref") == ref:
                pushed = row.detail.get("commit")
            elif row.event in TERMINAL_WORDS and (row.pending_tree or row.held_tree):
                kept = pushed
            elif row.seq in in_place and (unpushed := Unpushed.read(row)) is not None and unpushed.result is None:
                kept = unpushed.commit
        return kept


def load_agent_call(worker: Worker, claim: Claim) -> AgentCall:
    """Read one claimed agent call.

    Raises:
        StoreError: the journal has no prepared row for the claim's attempt.
    """
    database, spec = worker.database, worker.load_spec(claim.run_id)
    history = read.load_call(database, claim.call_id)
    rows = _since_prepared(history)
    if not rows or history[-1].attempt != claim.attempt:
        raise StoreError(f"call {claim.call_id} has no row that opens attempt {claim.attempt}")
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
        history=history,
    )


def _since_prepared(history: Sequence[CallRow]) -> Sequence[CallRow]:
    starts = [number for number, row in enumerate(history) if begins_attempt(row)]
    return history[starts[-1] :] if starts else ()

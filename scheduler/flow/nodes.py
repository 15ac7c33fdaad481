"""What a run knows of its nodes: which call is at one, which thread it has, and why it holds.

A node's worktree is written by one call at a time. A second one while the first is
open is a mistake in the script; one after a call that was held or whose outcome is
unknown gets a held result, since nothing may touch what has not been cleared.
Calls that only read never change the state of a node.
Source: rules of the protocol, 20; App Server document, "The App Server backend".
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.base.errors import FlowError
from shared.model.call_state import RECOVERY_HOLD
from shared.model.outcome import Ended, Status

_HOLDS = frozenset({Status.HELD, Status.OUTCOME_UNKNOWN})


@dataclass(frozen=True)
class Hold:
    """Why nothing may work on a node or its conversation.

    Shape: `reason` what a call that meets it ends held with; `unknown_call` the call whose
    outcome has to be recovered first, None for a hold that a resume goes on with.
    """

    reason: str
    unknown_call: str | None = None

    @classmethod
    def of(cls, ended: Ended) -> Hold | None:
        """The hold that the end of a call makes; None when it makes none."""
        if ended.status not in _HOLDS:
            return None
        if ended.status is Status.OUTCOME_UNKNOWN:
            return cls(RECOVERY_HOLD, ended.meta.call_id)
        if ended.reason == RECOVERY_HOLD:
            return cls(RECOVERY_HOLD, ended.facts.get("unknown_call"))
        return cls(f"node_held ({ended.status}: {ended.reason})" if ended.reason else f"node_held ({ended.status})")

    def detail(self) -> dict[str, str]:
        """What the held row of a call that meets it says."""
        return {"reason": self.reason, **({"unknown_call": self.unknown_call} if self.unknown_call else {})}


@dataclass
class _Node:
    writer: str | None = None
    thread_id: str | None = None
    hold: Hold | None = None


class Nodes:
    """The nodes of one run, as the calls that write them say."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}

    def begin(self, node: str, what: str) -> None:
        """A call that writes the node opens.

        Raises:
            FlowError: another one is open.
        """
        state = self._nodes.setdefault(node, _Node())
        if state.writer is not None:
            raise FlowError(
                f"{what} on node {node} while {state.writer} is open there: one call at a time works on a node",
                node=node,
            )
        state.writer = what

    def end(self, node: str, ended: Ended | None) -> None:
        """The call that `begin` opened ended; None when it was never opened."""
        state = self._nodes[node]
        state.writer = None
        if ended is None:
            return
        state.hold = Hold.of(ended) or state.hold
        if ended.meta.thread_id is not None:
            state.thread_id = ended.meta.thread_id

    def hold_of(self, node: str) -> Hold | None:
        """Why the node holds; None when it does not."""
        state = self._nodes.get(node)
        return state.hold if state else None

    def require_newest(self, node: str, thread_id: str | None) -> None:
        """Refuse to continue a conversation that a newer one on the node has replaced.

        Raises:
            FlowError: its directory is retired.
        """
        state = self._nodes.get(node)
        if state is not None and state.thread_id is not None and state.thread_id != thread_id:
            raise FlowError(
                f"node {node} has a newer conversation than this one; continue the newest result, or start afresh "
                "with flow.agent",
                node=node,
            )

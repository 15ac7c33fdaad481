"""What a run knows of its nodes: which call is at one, which thread it has, why it holds, what its calls left.

A node's worktree is written by one call at a time. A second one while the first is
open is a mistake in the script; one after a call that was held or whose outcome is
unknown gets a held result, since nothing may touch what has not been cleared.
Calls that only read never change the state of a node.
Source: rules of the protocol, 20; App Server document, "The App Server backend".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared.base.errors import FlowError
from shared.model.allocation import NODE_KINDS
from shared.model.boundary import Boundary, HeldTree, boundary_of
from shared.model.call_state import RECOVERY_HOLD
from shared.model.events import TERMINAL_WORDS
from shared.model.outcome import RESTORE_MISMATCH, Ended, Status
from shared.model.rows import CallRow

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
        if ended.reason == RESTORE_MISMATCH:
            return cls(RESTORE_MISMATCH)
        if ended.status is Status.OUTCOME_UNKNOWN:
            return cls(RECOVERY_HOLD, ended.meta.call_id)
        if ended.reason == RECOVERY_HOLD:
            return cls(RECOVERY_HOLD, ended.facts.get("unknown_call"))
        return cls(f"node_held ({ended.status}: {ended.reason})" if ended.reason else f"node_held ({ended.status})")

    def detail(self) -> dict[str, str]:
        """What the held row of a call that meets it says."""
        return {"reason": self.reason, **({"unknown_call": self.unknown_call} if self.unknown_call else {})}


_LEFT_WORDS = TERMINAL_WORDS | {"placed", "worktree_restored"}
# No more than the row around it: to take it out costs more than it weighs.
_LIGHT_RESULT_BYTES = 512


def _light(row: CallRow) -> CallRow:
    """The row without a result that weighs anything: a boundary needs none, and they can be large."""
    return row if row.result is None or len(row.result) <= _LIGHT_RESULT_BYTES else row.with_result(None)


@dataclass
class _Node:
    """Shape: `rows` what the positions that held left; `worked` that a worktree of it was made, ever;
    `restored` that this process has asked for its boundary, or that it goes on in place."""

    writer: str | None = None
    thread_id: str | None = None
    hold: Hold | None = None
    rows: list[CallRow] = field(default_factory=list)
    worked: bool = False
    restored: bool = False

    def was_made(self, since: int) -> bool:
        """Whether a worktree was made behind a row for a call that holds."""
        return any(row.event == "placed" and row.worktree_kind in NODE_KINDS and row.seq > since for row in self.rows)


class Nodes:
    """The nodes of one run, as the calls that write them say."""

    def __init__(self, worked: Iterable[str] = (), unknown: Mapping[str, str] | None = None) -> None:
        """Prepare.

        Args:
            worked: nodes of which earlier processes' calls made a worktree.
            unknown: node -> a call at it whose outcome is not known: nothing may touch it, wherever the script stands.
        """
        self._nodes: dict[str, _Node] = {node: _Node(worked=True) for node in worked}
        for node, call in (unknown or {}).items():
            self._nodes.setdefault(node, _Node()).hold = Hold(RECOVERY_HOLD, call)

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

    def see(self, node: str, rows: Sequence[CallRow]) -> None:
        """A call that writes the node stands with these rows: what a boundary of it is read from."""
        state = self._nodes[node]
        left = [_light(row) for row in rows if row.event in _LEFT_WORDS]
        state.rows += left
        state.worked = state.worked or any(row.event == "placed" for row in left)

    def keep(self, node: str) -> None:
        """The node goes on as it is: its worktree was seen to hold what its held call left."""
        self._nodes.setdefault(node, _Node()).restored = True

    def restore(
        self,
        node: str,
        lineage: int,
        because: Mapping[str, Any],
        held: Iterable[HeldTree],
        *,
        lost: bool,
        taken_at: int | None = None,
    ) -> Boundary | None:
        """What the next worktree of the node begins with; None when nobody worked on it, or it was asked for before.

        Args:
            lost: the host of its worktree is gone, so it is made again whatever was asked for before.
            taken_at: the row with which an earlier process began the suffix: a worktree made since holds it.
        """
        state = self._nodes.setdefault(node, _Node())
        state.restored = state.restored or (taken_at is not None and state.was_made(taken_at))
        if not state.worked or (state.restored and not lost):
            return None
        state.restored = True
        return replace(boundary_of(state.rows, lineage, **because), held=tuple(held))

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

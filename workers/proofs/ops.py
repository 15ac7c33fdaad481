"""Are the commits of a node and the states of held calls still there? Pure.

Source: journal document, "Build and fix" and "Held calls".
"""

from __future__ import annotations

from shared.model.proof import THREAD_ACTIVE, HeldState, Verdict, short
from workers.proofs.commit_chain import NodeFacts
from workers.proofs.executor import NodeView
from workers.proofs.record import Turned

# One that is not loaded is idle too: the only server this host has runs no turn of it.
_IDLE = ("idle", "notLoaded")


def judge_commits(view: NodeView, facts: NodeFacts) -> dict[str, Verdict]:
    """Call id -> why it is not proven, of a node's `commit` ops: their commits are in the history of its HEAD."""
    found = {}
    for made in view.record.made:
        if made.newest and made.commit in facts.gone:
            found[made.call_id] = Verdict(
                False,
                "commit_gone",
                f"commit {short(made.commit)} of node {view.record.node} is not on the hub any more, and its worktree "
                "is gone",
                {"commit": made.commit},
            )
        elif made.newest and made.commit not in view.history:
            found[made.call_id] = Verdict(
                False,
                "commit_left_history",
                f"commit {short(made.commit)} is not in the history of node {view.record.node}, which is at "
                f"{short(view.standing.commit)}",
                {"commit": made.commit, "head": view.standing.commit},
            )
    return found


def judge_held(held: Turned, snapshot: str | None, error: str | None, kept: str | None = None) -> HeldState:
    """Whether a held executor call finds its own worktree as it left it.

    Args:
        snapshot: what the call's own worktree holds now, None when it cannot be read (`error`).
        kept: the tree that the mirror keeps for it, for a call whose state did not come to the hub.
    """
    if held.tree is None:
        return HeldState(
            snapshot,
            False,
            "held_state_unknown",
            "what it left was not recorded when it was held",
        )
    if snapshot is None:
        return HeldState(None, False, "worktree_unreadable", f"its worktree cannot be read: {error}")
    if snapshot != held.tree:
        return HeldState(
            snapshot,
            False,
            "files_changed",
            f"its worktree holds tree {short(snapshot)}, and it was held with {short(held.tree)}",
        )
    if held.kept_on is not None and kept != held.tree:
        said = f"its host does not have the commit on {held.kept_on} any more, which kept its work"
        return HeldState(snapshot, False, "kept_work_gone", said)
    return HeldState(snapshot, True)


def judge_thread(state: HeldState, reason: str | None, thread_status: str | None) -> HeldState:
    """The same for the thread of a call that was held because a turn of it could not be joined: it has to be idle.

    Args:
        thread_status: the thread's status as the App Server reads it; None when it cannot be read.
    """
    if reason != THREAD_ACTIVE or not state.in_place or thread_status in _IDLE:
        return state
    said = f"is {thread_status}" if thread_status else "cannot be read"
    return HeldState(state.snapshot, False, "thread_not_idle", f"its thread {said}, not idle")

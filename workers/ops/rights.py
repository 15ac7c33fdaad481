"""The right to go on, asked for right before each effect."""

from __future__ import annotations

from shared.model.rows import NewCallRow
from workers.claim import CallStopped
from workers.ops.op import OpContext
from workers.worktrees.commit import Stamp
from workers.worktrees.keep import Keeping


def require_right(context: OpContext) -> None:
    """Go on only while nobody asked the call to end and the worker's own lease is confirmed.

    Raises:
        CallStopped: with the word for why not.
    """
    reason = context.should_stop()
    if reason is None and not context.may_send():
        reason = "lost"
    if reason is not None:
        raise CallStopped(reason)


def announce(context: OpContext, intent: NewCallRow) -> None:
    """Commit an intent row; when this returns, the effect may follow at once.

    Raises:
        CallStopped, RightLost, RunStopping: it may not.
    """
    require_right(context)
    context.append(intent)
    require_right(context)


def keeping_of(context: OpContext) -> Keeping:
    """How this op's pushes are announced and how long they are tried."""
    return Keeping(lambda row: announce(context, row), context.should_stop, context.spec.call_deadline_seconds)


def stamp_of(context: OpContext) -> Stamp:
    """Whose and of when this op's commits are."""
    return Stamp(context.spec.author_name, context.spec.author_email, context.prepared_at)

"""What is compared around a call's turns: a restored worktree before them, a read-only directory before and after.

Source: App Server document, "Working directories"; Task Monki document, "Attachment boundary".
"""

from __future__ import annotations

from shared.base.errors import GitError, WorktreeError
from shared.model.outcome import REPOSITORY_CHANGED, RESTORE_MISMATCH
from shared.model.rows import NewCallRow
from workers.call.context import AgentCall
from workers.call.desk import Desk
from workers.call.finish import Progressed, Verdict
from workers.worktrees.directories import Directories

_JUDGED = frozenset({"completed", "null_model", "held"})


class RestoreMismatch(WorktreeError):
    """A restored worktree does not hold what was restored: nothing is sent, and the node stops for the run."""

    reason = RESTORE_MISMATCH


def arm(done: Progressed, call: AgentCall, directories: Directories) -> None:
    """Have what the call's directory must hold compared, from here on to its first turn."""
    place = done.place
    assert place is not None
    if place.restored is not None:
        done.check = lambda: _require_restored(done, directories)
    if not call.executes and done.repository is None:
        done.repository = directories.state(place.path)


def _require_restored(done: Progressed, directories: Directories) -> None:
    place = done.place
    assert place is not None
    found = directories.snapshot(place.path)
    if found != place.restored:
        raise RestoreMismatch(
            f"{place.path} holds {found} and not {place.restored}, which it was restored to",
            path=str(place.path), found=found, expected=place.restored,
        )  # fmt: skip


def stop_node(desk: Desk, error: RestoreMismatch) -> Verdict:
    """The end of a call whose restored worktree is not what it was.

    Writes: `escalation`.
    """
    facts = {name: error.facts.get(name) for name in ("path", "found", "expected")}
    desk.append(NewCallRow("escalation", {"reason": RESTORE_MISMATCH, "error": str(error), **facts}))
    return Verdict(
        "outcome_unknown", RESTORE_MISMATCH, input_state="not_delivered", facts={"error": str(error), **facts}
    )


def check_repository(directories: Directories, done: Progressed, verdict: Verdict) -> Verdict:
    """The verdict on a call that may only read: refused when what it looked at is not what it was.

    What changed stays where it is, as evidence.
    """
    before, place = done.repository, done.place
    if before is None or place is None or not done.turns or verdict.event not in _JUDGED:
        return verdict
    try:
        now = directories.state(place.path)
    except (WorktreeError, GitError) as error:
        now = {"error": str(error)}
    if now == before:
        return verdict
    facts = {
        "error": f"a turn that may only read changed {place.path}",
        "path": str(place.path),
        "before": dict(before),
        "after": now,
    }
    return Verdict("refused", REPOSITORY_CHANGED, None, verdict.input_state, facts)

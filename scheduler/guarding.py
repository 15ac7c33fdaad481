"""Shut a host that was given up out of the hub: no push of it, whenever it wakes, moves a target.

The order is the guard's own: the fence rose first, so that no new push is announced;
then the guard moves, and what was announced before is refused by the hub.
Source: rules of the protocol, 7.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.base.errors import GitError
from shared.hub.git import Git
from shared.hub.guard import move_guard
from shared.hub.push import patiently
from shared.journal.database import Database
from shared.journal.read import load_call
from shared.journal.runs import load_spec

_HUB_TIMEOUT_SECONDS = 30.0
_HUB_PATIENCE_SECONDS = 10.0


def may_push(database: Database, calls: Iterable[str]) -> bool:
    """Whether one of these calls announced a push that the guard goes along with."""
    return any(
        row.event == "push_requested" and "guard" in row.detail for call in calls for row in load_call(database, call)
    )


def shut_out(database: Database, run_id: str, moved_by: str) -> str | None:
    """Move the run's guard; what stood in the way where it cannot be moved."""
    git, hub = Git(_HUB_TIMEOUT_SECONDS), load_spec(database, run_id).hub
    try:
        patiently(lambda: move_guard(git, hub, run_id, moved_by), lambda: False, _HUB_PATIENCE_SECONDS)
    except GitError as error:
        return f"the guard on the hub could not be moved: {error}"
    return None

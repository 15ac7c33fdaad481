"""Directories that belong to one call: removed behind its end, and those that dead processes left at the next resume.

Source: App Server document, "Working directories"; journal document, "The suffix".
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from shared.base.errors import GitError, WorktreeError
from shared.base.log import get_logger
from shared.journal import read
from shared.model.call_state import read_call_state
from shared.model.rows import NewCallRow
from workers.call.context import AgentCall
from workers.call.desk import Desk
from workers.call.finish import Progressed
from workers.worker import Worker
from workers.worktrees.allocator import remove_worktree, run_directory

log = get_logger()
_lock = threading.Lock()
_swept: set[tuple[str, str, int]] = set()


def leave_directory(worker: Worker, call: AgentCall, done: Progressed) -> None:
    """Remove the directory that goes with a call's end, whatever becomes of the run meanwhile.

    One that cannot be removed is left to the next resume, which says so in a row.
    """
    assert done.place is not None
    try:
        remove_worktree(worker.mirrors.git, worker.mirrors.path_of(call.spec.hub), done.place.path)
    except (WorktreeError, GitError) as error:
        log.warning("own_directory_kept", run=call.claim.run_id, call=call.claim.call_id, error=str(error))


def remove_left(desk: Desk, call: AgentCall) -> None:
    """Remove what earlier processes of the run left on this host, once for each resume that comes here.

    One that a call is still at work in stays, and so does that of a call whose outcome is not known.

    Writes: `own_directory_kept` for one that cannot be removed.
    """
    mark = (desk.host, call.claim.run_id, call.lineage)
    with _lock:
        if call.lineage < 1 or mark in _swept:
            return
        _swept.add(mark)
    worker, run = desk.worker, call.claim.run_id
    home = run_directory(worker.settings.state_dir, run) / "calls"
    for ended, named in read.load_own_directories(worker.database, run):
        path = Path(named)
        if not path.is_relative_to(home) or not os.path.lexists(path) or _is_in_use(worker, ended, named):
            continue
        try:
            remove_worktree(worker.mirrors.git, worker.mirrors.path_of(call.spec.hub), path)
        except (WorktreeError, GitError) as error:
            desk.note(NewCallRow("own_directory_kept", {"call": ended, "path": named, "error": str(error)}))


def _is_in_use(worker: Worker, call_id: str, path: str) -> bool:
    state = read_call_state(read.load_call(worker.database, call_id))
    if state.terminal is not None and state.terminal.event != "outcome_unknown":
        return False
    return state.placed is not None and state.placed.worktree_path == path

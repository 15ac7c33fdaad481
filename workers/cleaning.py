"""The host's part of `crw flow clean`: remove what an ended run left here, and answer who asked."""

from __future__ import annotations

from typing import Any

from shared.base.errors import CrwError, UsageError
from shared.base.ids import is_run_id
from shared.base.log import get_logger
from shared.broker.replies import answer
from shared.journal import runs
from workers.rollouts import remove_threads
from workers.worker import Worker
from workers.worktrees.clean import clean_run

log = get_logger()


def clean_and_answer(worker: Worker, run_id: str, address: str) -> None:
    """Clean up after a run and put what was done, or why not, at the address. Never raises."""
    reply: dict[str, Any] = {"host": worker.host}
    try:
        reply |= _clean(worker, run_id)
    except (CrwError, OSError) as error:
        reply["error"] = str(error)
    log.info("cleaned", run=run_id, why=reply.get("error"))
    answer(worker.settings.broker_url or "", address, reply)


def _clean(worker: Worker, run_id: str) -> dict[str, Any]:
    # The message is a hint like any other: the journal says whether the run has ended.
    state = runs.run_state(worker.database, run_id) if is_run_id(run_id) else None
    if state is None or state.state != "ended":
        raise UsageError("the run has not ended")
    hub = worker.load_spec(run_id).hub
    cleaned = clean_run(worker.mirrors, worker.settings.state_dir, hub, run_id)
    remove_threads(worker, run_id)
    return {"directories": len(cleaned.directories), "mirror_refs": len(cleaned.mirror_refs)}

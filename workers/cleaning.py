"""The host's part of `crw flow clean`: remove what an ended run left here, and answer who asked."""

from __future__ import annotations

from typing import Any

from shared.base.errors import CrwError, UsageError
from shared.base.ids import is_run_id
from shared.base.log import get_logger
from shared.broker.replies import answer
from shared.journal.removals import removing
from workers.rollouts import remove_threads
from workers.worker import Worker
from workers.worktrees.clean import clean_run

log = get_logger()


def clean_and_answer(worker: Worker, run_id: str, address: str, resumes: int | None = None) -> None:
    """Clean up after a run and put what was done, or why not, at the address. Never raises.

    Args:
        resumes: how often the run had been resumed when somebody asked; None from who does not say it.
    """
    reply: dict[str, Any] = {"host": worker.host}
    try:
        reply |= _clean(worker, run_id, resumes)
    except (CrwError, OSError) as error:
        reply["error"] = str(error)
    log.info("cleaned", run=run_id, why=reply.get("error"))
    answer(worker.settings.broker_url or "", address, reply)


def _clean(worker: Worker, run_id: str, resumes: int | None) -> dict[str, Any]:
    if not is_run_id(run_id):
        raise UsageError(f"{run_id!r} is no run")
    hub = worker.load_spec(run_id).hub
    # The message is a hint like any other: the journal says whether the run has ended, and keeps it so.
    place, owner = f"host {worker.host}", worker.incarnation.worker_id
    with removing(worker.database, run_id, place, worker=owner, resumes=resumes) as go_on:
        cleaned = clean_run(worker.mirrors, worker.settings.state_dir, hub, run_id, go_on)
        remove_threads(worker, run_id, go_on)
    return {"directories": len(cleaned.directories), "mirror_refs": len(cleaned.mirror_refs)}

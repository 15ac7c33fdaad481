"""Plan a run's resume from the journal: load what it is and what it recorded, ask its hosts, and write no row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scheduler.planning import plan_resume
from scheduler.resume.host_questions import HostQuestions
from scheduler.resume.plan import Plan
from scheduler.resume.proving import Proving
from shared.base.errors import RightLost, UsageError
from shared.journal.database import Database
from shared.journal.read import load
from shared.journal.runs import RunState, load_source, load_spec


def preview(database: Database, state: RunState, tell: Callable[[str], None], patience_seconds: float) -> Plan:
    """What a resume of a run that nobody drives would do now.

    Args:
        tell: wakes the hosts that are asked.
        patience_seconds: how long a host that is silent is waited for; then its positions wait in the plan as well.

    Raises:
        UsageError: somebody began to drive the run meanwhile, or its script does not come to a stand.
    """
    run_id = state.run_id
    spec = load_spec(database, run_id)
    sources = {name: load_source(database, digest) for name, digest in spec.sources.items()}
    rows = load(database, run_id)
    asking = HostQuestions(
        database, run_id, state.lease_epoch, tell=tell, note=lambda _row: None, give_up_seconds=patience_seconds
    )
    proving = Proving(database, run_id, rows, asking)
    try:
        return asyncio.run(plan_resume(run_id, spec, sources, rows, proving))
    except RightLost:
        raise UsageError(
            f"run {run_id} was taken by a scheduler while it was planned; follow it with 'crw flow watch {run_id}'"
        ) from None

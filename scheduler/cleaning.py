"""Remove what an ended run left: its refs on the hub from here, its worktrees by the hosts themselves.

The journal keeps every row and the hub keeps the target branch: what goes are means,
not results. A host answers for itself; one that is not up, or does not answer in
time, is reported as pending, and the same command later finds it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scheduler.client import Farm
from scheduler.submitted import Run
from shared.base.errors import GitError, UsageError
from shared.base.ids import RunId
from shared.broker.replies import answers, ask_to_clean
from shared.hub.deletion import delete_run_refs
from shared.hub.git import Git
from shared.journal.read import load_lean
from shared.journal.removals import removing
from shared.journal.retention import hub_cleaned
from shared.journal.roster import list_hosts
from shared.journal.runs import RunState, load_spec
from shared.model.rows import CallRow

_GIT_SECONDS = 120.0


@dataclass(frozen=True)
class Report:
    """What became of one place. Shape: `place` hub or `host <name>`; `state` removed, pending or failed."""

    place: str
    state: str
    detail: str = ""


def clean_run(farm: Farm, run: Run, wait_seconds: float) -> list[Report]:
    """Clean up after a run and say place by place what was done.

    Raises:
        UsageError: the run has not ended. RightLost: the hub was so slow that the run may be in use again.
    """
    state = farm.state(run)
    if state.state != "ended":
        raise UsageError(f"run {run} is {state.state}; cancel it first with 'crw flow cancel {run}'")
    farm.check_services()
    return [_clean_hub(farm, state), *_clean_hosts(farm, state, wait_seconds)]


def _clean_hosts(farm: Farm, state: RunState, wait_seconds: float) -> list[Report]:
    run = state.run_id
    took_part = {row.host for row in load_lean(farm.database, RunId(run)) if isinstance(row, CallRow) and row.host}
    up = {host.host for host in list_hosts(farm.database) if host.state in ("up", "draining")}
    asked = sorted(took_part & up)
    reports = {
        host: Report(f"host {host}", "pending", "the host is not up; clean again when it is back")
        for host in sorted(took_part - up)
    }
    if asked:
        url = str(farm.settings.broker_url)
        address = ask_to_clean(url, run, asked, state.resumes)
        for reply in answers(url, address, wait_seconds):
            reports[str(reply.get("host"))] = _host_report(reply)
            if all(host in reports for host in asked):
                break
        for host in asked:
            reports.setdefault(host, Report(f"host {host}", "pending", "the host was asked and has not answered yet"))
    return [reports[host] for host in sorted(reports)]


def _host_report(reply: dict[str, Any]) -> Report:
    error = reply.get("error")
    place = f"host {reply.get('host')}"
    if error:
        return Report(place, "failed", str(error))
    directories, refs = reply.get("directories", 0), reply.get("mirror_refs", 0)
    return Report(place, "removed", f"{directories} directories, {refs} refs of its mirror")


def _clean_hub(farm: Farm, state: RunState) -> Report:
    run, database = state.run_id, farm.database
    hub = load_spec(database, run).hub
    try:
        with removing(database, run, "hub", resumes=state.resumes) as go_on:
            removed = delete_run_refs(Git(_GIT_SECONDS), hub, run, go_on)
            hub_cleaned(database, run)
    except GitError as error:
        return Report("hub", "pending", f"the repository cannot be reached from here ({error})")
    return Report("hub", "removed", f"{len(removed)} refs" if removed else "no refs of the run were there")

"""Resume a run: what the caller gives is only compared with what the run is, then the run is queued again.

Script, helpers and arguments lie in the journal by digest, so any scheduler can go on
with the run; an edited script is no resume. Every refusal comes before anything is
written.
Source: journal document, "crw flow resume".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.flow.sources import Sources, collect
from scheduler.guarding import shut_out
from shared.base.canonical import digest_json
from shared.base.errors import UsageError
from shared.base.log import mask_url
from shared.hub.hub import hub_name
from shared.journal.database import Database
from shared.journal.removals import load_cleaners
from shared.journal.roster import list_schedulers
from shared.journal.runs import Reopened, RunState, load_spec, reopen, run_state
from shared.model.spec import RunSpec

_SHOWN = 12
_NAMED, _NAME_CHARACTERS = 5, 40
_NEW_RUN = "start a new run with 'crw flow start', or leave it out: the run has its own"


@dataclass(frozen=True)
class Given:
    """What a caller believes the run to be. Shape: None for what is not given; `args` is called for the JSON value."""

    script: Path | None = None
    args: Callable[[], Any] | None = None
    repo: str | None = None


NOTHING_GIVEN = Given()


def check_same(spec: RunSpec, given: Given) -> None:
    """Refuse what is not the run's.

    Raises:
        UsageError: one sentence about the first thing that differs.
    """
    if given.script is not None:
        _check_sources(spec, collect(given.script))
    if given.args is not None:
        value = given.args()
        if digest_json(value) != digest_json(spec.args):
            raise UsageError(f"these arguments are not the run's: {_other_members(spec.args, value)}; {_NEW_RUN}")
    if given.repo is not None:
        asked = hub_name(given.repo)
        if asked != spec.hub:
            raise UsageError(f"the run is on {mask_url(spec.hub)}, not on {mask_url(asked)}; {_NEW_RUN}")


def _other_members(was: Any, now: Any) -> str:
    """Where two values differ: the names of the members, for they may be long, or secret; of other values digests."""
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        return f"sha-256 {digest_json(now)[:_SHOWN]}, the run's {digest_json(was)[:_SHOWN]}"
    new, missing = sorted(now.keys() - was.keys()), sorted(was.keys() - now.keys())
    other = sorted(name for name in was.keys() & now.keys() if digest_json(was[name]) != digest_json(now[name]))
    told = (("differs", "differ", other), ("is missing", "are missing", missing), ("is new", "are new", new))
    return ", ".join(f"{_listed(names)} {one if len(names) == 1 else many}" for one, many, names in told if names)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    shown = ", ".join(repr(name[:_NAME_CHARACTERS]) for name in names[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def _check_sources(spec: RunSpec, sources: Sources) -> None:
    digests = sources.digests()
    if sources.script != spec.script:
        raise UsageError(f"the run's script is {spec.script}, not {sources.script}; {_NEW_RUN}")
    for name in sorted(digests.keys() | spec.sources.keys()):
        now, was = digests.get(name), spec.sources.get(name)
        if now == was:
            continue
        if was is None:
            words = f"{name} is no file of the run"
        elif now is None:
            words = f"the run has a file {name} and this script does not"
        else:
            words = f"{name} was edited (sha-256 {now[:_SHOWN]}, the run's {was[:_SHOWN]})"
        raise UsageError(f"an edited script is no resume: {words}; {_NEW_RUN}")


def can_resume(state: RunState) -> bool:
    """Whether a resume would open the run again, as it stands: nobody drives it, is to drive it or is stopping it."""
    return state.state == "ended" or state.stop == "pause" or (state.state == "quarantined" and state.stop is None)


def resume_run(database: Database, state: RunState, given: Given) -> Reopened:
    """Queue a run again, for a scheduler that walks it.

    Raises:
        UsageError: what was given is not the run's, somebody drives it, or its hub cannot be had and may still delete
            what the run had there; nothing was written.
    """
    check_same(load_spec(database, state.run_id), given)
    if state.cleaned_at is not None and can_resume(state):
        _shut_out_removers(database, state)
    reopened = reopen(database, state)
    if reopened is None:
        raise UsageError(why_not(database, state))
    return reopened


def _shut_out_removers(database: Database, state: RunState) -> None:
    """See to it that no deletion that still lies at the hub is applied to the run that goes on."""
    for cleaner in load_cleaners(database, state.run_id):
        raise UsageError(cleaner.sentence())
    error = shut_out(database, state.run_id, "resume")
    if error is not None:
        raise UsageError(
            f"what run {state.run_id} had on its hub was removed, and the hub may not be done with that: {error}; "
            "resume it when the hub is back"
        )


def why_not(database: Database, state: RunState) -> str:
    """Who has a run that cannot be resumed now, or what is going on with it, and what to type."""
    for cleaner in load_cleaners(database, state.run_id):
        return cleaner.sentence()
    follow = f"follow it with 'crw flow watch {state.run_id}'"
    if state.stop == "cancel":
        return f"run {state.run_id} is being cancelled; resume it when it has ended: {follow}"
    if state.state == "running":
        machines = {one.scheduler_id: one.machine for one in list_schedulers(database)}
        where = machines.get(state.scheduler_id or "")
        driver = f"scheduler {state.scheduler_id}" + (f" on {where}" if where else "")
        return f"run {state.run_id} is being driven by {driver}; {follow}"
    if state.state == "queued":
        return f"run {state.run_id} waits for a scheduler to go on with it; {follow}"
    now = run_state(database, state.run_id)
    if now is not None and now.cleaned_at != state.cleaned_at:
        return f"what run {state.run_id} left was removed while it was looked at; give the command again"
    return f"run {state.run_id} was resumed by somebody else just now; {follow}"

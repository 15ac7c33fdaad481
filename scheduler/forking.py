"""Fork a run: a new one begins with the proven prefix of another and runs on from there by itself.

Which positions are its prefix is decided first; then what their rows name is given to
the new run on the hub; then the run is stored, with copies of the rows. Its scheduler
walks them like any record: what is there replays, what is not runs live, in worktrees of
its own.
Source: design of the farm, "Room to leave".
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.resume.decisions import Place, place_name
from scheduler.resume.host_questions import HostQuestions
from scheduler.resume.prefix import Cut, Prefix, plan_prefix
from scheduler.resume.proving import Proving
from scheduler.submission import check_key
from shared.base.errors import GitError, HostUnreachable, UsageError
from shared.base.ids import new_run_id
from shared.hub.copying import copy_refs
from shared.hub.git import Git
from shared.hub.refs import branch_ref, pending_ref, read_refs, retired_ref, run_namespace
from shared.journal.database import Database
from shared.journal.forking import Renaming, fork, fork_of_key
from shared.journal.read import load
from shared.journal.removals import load_cleaners
from shared.journal.runs import RunState, load_spec
from shared.model.events import TERMINAL_WORDS
from shared.model.position import find_named
from shared.model.proof import Prover
from shared.model.rows import CallRow, Row
from shared.model.spec import RunSpec

# Plain digits alone: others are digits, too, of which `int` makes nothing, and so many that it refuses.
_POSITION = re.compile(r"0*[1-9][0-9]{0,8}", re.ASCII)
_GIT_SECONDS = 300.0
_HOST_SECONDS = 20.0


@dataclass(frozen=True)
class Forked:
    """A fork. Shape: `calls` how many of the other run's it has; `cuts` where its prefix ends."""

    run_id: str
    key: str
    created: bool
    calls: int
    cuts: tuple[Cut, ...]


def parse_place(text: str) -> Place:
    """A position as people write it: `main:3`.

    Raises:
        UsageError: it is none.
    """
    path, colon, position = text.rpartition(":")
    if not colon or not path or not _POSITION.fullmatch(position):
        raise UsageError(f"{text!r} is no position; write path and number, for instance main:3")
    return path, int(position)


def fork_run(database: Database, state: RunState, at: str, key: str | None) -> Forked:
    """Store a new run that begins with what the other one has proven before a position.

    Raises:
        UsageError: there is no such position, a host that has to be asked is silent, what rows name is not on the
            hub any more, or what the run left is being removed; nothing was written.
    """
    run, spec = state.run_id, load_spec(database, state.run_id)
    rows = load(database, run)
    asked = parse_place(at)
    if key is not None:
        check_key(key)
    place = _recorded_place(rows, asked, run)
    there = fork_of_key(database, run, key, place_name(place)) if key is not None else None
    if there is not None and key is not None:
        return Forked(there.run_id, key, False, 0, ())
    for cleaner in load_cleaners(database, run):
        raise UsageError(cleaner.sentence())
    asking = HostQuestions(
        database, run, state.lease_epoch, tell=lambda _: None, note=lambda _: None, give_up_seconds=_HOST_SECONDS
    )
    prover = Proving(database, run, rows, asking)
    try:
        prefix = asyncio.run(_plan(rows, place, prover, run, spec))
    except HostUnreachable as error:
        raise UsageError(f"{error}; fork when it is back, or give it up with 'crw host lost'") from None
    renaming = Renaming.plan(run, new_run_id(), rows)
    git = Git(_GIT_SECONDS)
    try:
        told = read_refs(git, spec.hub, f"{run_namespace(run)}/*").keys() & told_refs(run, prefix.rows)
        copy_refs(git, spec.hub, {name: renaming.ref(name) for name in {*kept_refs(run, prefix.rows), *told}})
    except GitError as error:
        cleaned = ", which was cleaned," if state.cleaned_at is not None else ""
        raise UsageError(
            f"what the prefix of run {run}{cleaned} rests on cannot be given to another run: {error}"
        ) from None
    cuts = [{"at": place_name(cut.place), "why": cut.why} for cut in prefix.cuts]
    name = key or f"fork-{secrets.token_hex(8)}"
    why, at_name = {"cuts": cuts}, place_name(place)
    stored = fork(database, renaming, prefix.rows, name, at_name, why, cleaned_at=state.cleaned_at)
    return Forked(stored.run_id, name, stored.created, len(prefix.calls()), prefix.cuts)


async def _plan(rows: Sequence[Row], at: Place, prover: Prover, run: str, spec: RunSpec) -> Prefix:
    """The prefix, with the verdicts of the hosts."""
    by_call: dict[str, list[CallRow]] = {}
    for row in rows:
        if isinstance(row, CallRow):
            by_call.setdefault(row.call_id, []).append(row)
    whole = plan_prefix(rows, at, lambda _: None)
    unproven: dict[str, str] = {}
    for call in whole.calls():
        verdict = await prover.verdict(by_call[call])
        if not verdict.proven:
            unproven[call] = verdict.sentence or "its effect is not there any more"
        elif _on_own_branch(by_call[call], run, spec):
            unproven[call] = "it moved the branch of its own run"
    return plan_prefix(rows, at, lambda rows: unproven.get(rows[-1].call_id))


def _on_own_branch(rows: Sequence[CallRow], run: str, spec: RunSpec) -> bool:
    """Whether a merge went to the branch that is named after its run: the new one has another."""
    own = branch_ref(spec.target_branch(run))
    return not spec.target and rows[-1].kind == "integrate" and rows[-1].detail.get("ref") == own


def kept_refs(run: str, rows: Sequence[Row]) -> list[str]:
    """The refs on the hub that keep what these rows name: pending trees of executor calls, and commits."""
    found: dict[str, None] = {}
    for row in (row for row in rows if isinstance(row, CallRow) and row.event in TERMINAL_WORDS):
        if row.kind == "agent" and row.pending_tree is not None:
            found[pending_ref(run, row.call_id)] = None
        elif row.kind == "commit" and isinstance(row.detail.get("ref"), str):
            found[str(row.detail["ref"])] = None
    return list(found)


def told_refs(run: str, rows: Sequence[Row]) -> set[str]:
    """The refs that a call may be told of: what stood in worktrees before the newest one. Not all need be there."""
    found: set[str] = set()
    for row in (row for row in rows if isinstance(row, CallRow)):
        if row.event == "placed" and row.node_id is not None and row.allocation is not None:
            found |= {retired_ref(run, row.node_id, row.allocation), *(row.detail.get("kept") or ())}
        elif row.event == "worktree_preserved":
            detail = row.detail
            found |= {
                str(ref) for ref in (detail.get("ref"), *(held["ref"] for held in detail.get("held") or ())) if ref
            }
    return found


def _recorded_place(rows: Sequence[Row], asked: Place, run: str) -> Place:
    places = {place_name(place): place for place in _places(rows)}
    name = find_named(place_name(asked), places)
    if name is None:
        there = ", ".join(name for name, place in places.items() if place[0] == asked[0]) or ", ".join(
            dict.fromkeys(path for path, _ in places.values())
        )
        raise UsageError(f"run {run} has nothing recorded at {place_name(asked)}; it has {there or 'no call yet'}")
    return places[name]


def _places(rows: Sequence[Row]) -> list[Place]:
    return list(dict.fromkeys((row.path, row.position) for row in rows if isinstance(row, CallRow)))

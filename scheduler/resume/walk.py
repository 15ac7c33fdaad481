"""The resume walk: what a position does, given what was recorded at its place. Pure.

A recorded position replays when all of these hold; the first that does not starts the suffix:

    a  every earlier position of its path replayed
    b  every position of the parent path before the join that opened its path replayed
    c  its input digest is the recorded one
    d  the facts from outside that it rests on are the recorded ones
    e  the effect it had is still there (asked of a prover)
    f  the join before it on its path replayed
    g  its last event is not held

a, b and f stand in the path's own state, which is given as `broken`. A position that was
never opened fails nothing: its path goes on live from there. An attempt that was
superseded gives way to the next one; one that was withdrawn never began, so what stood
there before it decides. What ended unknown is never run again, whatever else holds.
Source: journal document, "The resume walk"; decisions, "Resume, where the source leaves a gap".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.resume.attempts import ended_attempts, last_end, live_again
from scheduler.resume.decisions import (
    Attach,
    Decision,
    Failed,
    GoOn,
    Live,
    Mismatch,
    Place,
    Replay,
    Stays,
    place_name,
)
from scheduler.resume.differing import differing
from scheduler.resume.held import decide_held
from shared.model.boundary import without_withdrawn
from shared.model.call_state import begins_attempt, is_unknown_end
from shared.model.proof import HeldState, Verdict
from shared.model.rows import CallRow

__all__ = ["Attach", "Failed", "GoOn", "Live", "Mismatch", "Replay", "Stays", "judge", "judge_held", "walk"]


def walk(
    rows: Sequence[CallRow],
    place: Place,
    kind: str,
    detail: Mapping[str, Any],
    *,
    broken: Failed | None = None,
    holding: bool = False,
    asked: bool = False,
    also: Callable[[], str] | None = None,
) -> Decision:
    """Decide what the position at `place` does, as far as rows alone tell: (e) is left to `judge`.

    Args:
        rows: what was recorded there, oldest first; empty for a position never opened.
        kind: `agent` or the op that the script asks for now.
        detail: what it asks, with its `input_digest`, as a prepared row would record it.
        broken: why no recorded position of the path replays any more (a, b, f); None while they do.
        holding: whether its node or its conversation holds now.
        asked: somebody asked for this resume, so that a position of which only (c) fails runs live.
        also: makes another digest that an older version would have recorded for the same input.
    """
    if not rows:
        return Live()
    began = without_withdrawn(rows)
    if not began:
        return Live(rows[-1].attempt + 1, ended_attempts(rows), rows=rows)
    last = last_end(began)
    if last is not None and last.event == "superseded":
        return _another(rows, last, place)
    failed = broken or _other_input(began, place, kind, detail, also)
    if failed is not None and failed.condition == "c" and not asked:
        return Mismatch(f"at {place_name(place)} {failed.sentence}", failed.differs)
    if last is not None and is_unknown_end(last):
        return Stays(rows, failed)
    if failed is not None:
        return live_again(rows, failed)
    if last is None:
        return Attach(rows)
    if last.event == "outcome_unknown":
        said = "the worktree that was restored for it changed before its first turn"
        return live_again(rows, Failed("g", place, said, facts={"hold": last.detail.get("reason")}))
    if last.event == "held":
        return _held(rows, last, place, holding)
    return Replay(rows)


def judge(replay: Replay, verdict: Verdict) -> Decision:
    """What becomes of a position that replays by its rows, when its effect was looked at (e)."""
    if verdict.proven:
        return replay
    row = replay.rows[-1]
    sentence = verdict.sentence or "what it did is not there any more"
    facts = {**verdict.facts, **({"reason": verdict.reason} if verdict.reason else {})}
    return live_again(replay.rows, Failed("e", (row.path, row.position), sentence, facts=facts))


def judge_held(go_on: GoOn, state: HeldState) -> Decision:
    """What becomes of a held call that may go on by its rows, when its directory and thread were looked at."""
    if state.in_place:
        return go_on
    row = go_on.rows[-1]
    sentence = f"it was held ({go_on.reason}) and cannot go on in place: " + (
        state.sentence or "its worktree is not as the call left it"
    )
    facts = {"hold": go_on.reason, "snapshot": state.snapshot, **({"reason": state.reason} if state.reason else {})}
    return live_again(go_on.rows, Failed("g", (row.path, row.position), sentence, facts=facts))


def _another(rows: Sequence[CallRow], last: CallRow, place: Place) -> Live:
    because = Failed.read(last.detail, place) if "condition" in last.detail else None
    return Live(rows[-1].attempt + 1, ended_attempts(rows), because, because is None, rows=rows)


def _held(rows: Sequence[CallRow], last: CallRow, place: Place, holding: bool) -> Decision:
    if not begins_attempt(last):
        return decide_held(rows, last, place)
    # No worker was asked: the engine itself wrote it, since the node held.
    if holding:
        return Stays(rows)
    reason = last.detail.get("reason")
    return live_again(rows, Failed("g", place, f"it was held ({reason}), and what held it does no longer"))


def _other_input(
    rows: Sequence[CallRow], place: Place, kind: str, detail: Mapping[str, Any], also: Callable[[], str] | None
) -> Failed | None:
    """(c) and (d)."""
    recorded = None
    for row in reversed(rows):
        if "input_digest" in row.detail:
            recorded = row
            break
    if recorded is None or recorded.kind != kind:
        was = rows[-1].kind
        return Failed("c", place, f"the script asks for {kind}, recorded is {was}", ("kind",), {"kind": [was, kind]})
    digest = recorded.detail["input_digest"]
    if digest != detail["input_digest"] and (also is None or digest != also()):
        facts = differing(recorded.detail, detail)
        names = tuple(sorted(facts)) or ("joins",)
        return Failed("c", place, _other(names), names, facts)
    before, now = recorded.detail.get("input_snapshot"), detail.get("input_snapshot")
    if before is not None and before != now:
        now = now or {}
        changed = {name: [before.get(name), now.get(name)] for name in sorted(before.keys() | now.keys())}
        changed = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
        return Failed("d", place, _outside(tuple(changed)), tuple(changed), changed)
    return None


def _other(names: tuple[str, ...]) -> str:
    if names == ("joins",):
        return "the results of the joins before it are not what was recorded"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not what was recorded"


def _outside(names: tuple[str, ...]) -> str:
    changed = "has" if len(names) == 1 else "have"
    return f"outside the run {', '.join(names)} {changed} changed since it was recorded"


def walk_join(recorded: str | None, digest: str, broken: Failed | None) -> bool:
    """Whether a join replays: nothing under it ran live, and its items' results have the recorded digest."""
    return recorded == digest and broken is None


def failed_join(place: Place, recorded: str, digest: str) -> Failed:
    """Why what comes after a join does not replay: its items replayed to other results than were recorded."""
    sentence = f"the join at {place_name(place)} gives other results than were recorded"
    return Failed("f", place, sentence, ("results",), {"results": [recorded, digest]})


def mismatch_of_kinds(place: Place, asked: str, recorded: str) -> Mismatch:
    """A join where a call was recorded, or a call where a join was."""
    return Mismatch(f"at {place_name(place)} the script opens {asked}, recorded is {recorded}", ("kind",))


def failed_kinds(place: Place, asked: str, recorded: str) -> Failed:
    """The same where somebody asked for the resume: (c) fails."""
    facts = {"kind": [recorded, asked]}
    return Failed("c", place, f"the script opens {asked}, recorded is {recorded}", ("kind",), facts)


def mismatch_of_join(place: Place) -> Mismatch:
    """A join whose items all replayed to other results than its row recorded."""
    return Mismatch(f"at {place_name(place)} the join's items give other results than were recorded", ("results",))


def mismatch_of_end(places: Sequence[Place]) -> Mismatch:
    """The script came to its end without opening what was recorded."""
    named = ", ".join(place_name(place) for place in places[:5])
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return Mismatch(f"the script ended without coming to {named}{more}, which was recorded", ("positions",))

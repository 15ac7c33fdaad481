"""Plans and explanations as text: what each position does, and which condition says so. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.cli.output import Table, count, one_line
from scheduler.cli.render_run import drop_empty
from scheduler.cli.view import lane_name
from scheduler.resume.decisions import Failed, place_name
from scheduler.resume.explain import Attempt, Explained
from scheduler.resume.plan import CONDITIONS, Plan, Planned, PlannedPosition

_WIDTH = 160
_WORDS = {
    Planned.REPLAY: "replays",
    Planned.ATTACH: "is waited for",
    Planned.GO_ON: "goes on in place",
    Planned.LIVE: "runs live",
    Planned.HELD: "stays held",
    Planned.WAITS: "waits for a host",
}


def plan_record(run: str, plan: Plan) -> dict[str, Any]:
    """A plan as one JSON object."""
    return {
        "run": run,
        "end": plan.end,
        "tokens_last_time": plan.tokens,
        **{str(word): plan.count(word) for word in Planned},
        "positions": [one.to_json() for one in plan.positions],
    }


def plan_lines(plan: Plan) -> list[str]:
    """What a plan comes to, in a few lines."""
    counted = [f"{plan.count(word)} {words}" for word, words in _COUNTED.items() if plan.count(word)]
    lines = [", ".join(counted) or "nothing was recorded: the script runs from its start"]
    if plan.count(Planned.LIVE):
        lines.append(f"what runs live cost {count(plan.tokens)} tokens last time")
    if plan.end == "completed" and plan.count(Planned.REPLAY) == len(plan.positions):
        lines.append("everything replays: the resume comes to the end of the script and costs nothing")
    elif plan.end == "completed":
        lines.append("nothing is asked for anew: the resume comes to the end of the script and costs nothing")
    elif plan.end != "goes_on":
        lines.append(f"the script ends in an error on what is recorded: {plan.end}")
    return lines


_COUNTED = {
    Planned.REPLAY: "replay",
    Planned.ATTACH: "are waited for",
    Planned.GO_ON: "go on in place",
    Planned.LIVE: "run live",
    Planned.HELD: "stay held",
    Planned.WAITS: "wait for a host",
}


def plan_table(plan: Plan, *, whole: bool) -> Table:
    """The positions of a plan; those that replay only when `whole`."""
    shown = [one for one in plan.positions if whole or one.decision is not Planned.REPLAY]
    heads = ("LANE", "POS", "CALL", "NODE", "LABEL", "ON A RESUME", "WHY", "TOKENS")
    rows = tuple(
        (
            lane_name(one.place[0]),
            str(one.place[1]),
            one.what,
            one.node or "",
            one_line(one.label or "", 32),
            _WORDS[one.decision],
            why_words(one),
            "" if one.tokens_last_time is None else count(one.tokens_last_time),
        )
        for one in shown
    )
    return drop_empty(Table(heads, rows, frozenset({"POS", "TOKENS"})))


def why_words(position: PlannedPosition) -> str:
    """The condition that decides a position, with its letter."""
    if position.because is None:
        return position.note or ""
    return one_line(failed_words(position.because), _WIDTH)


def failed_words(failed: Failed) -> str:
    """A failed condition in one sentence, with its letter."""
    return f"({failed.condition}) {failed.sentence}"


def explained_lines(explained: Explained, plan: PlannedPosition | None) -> list[str]:
    """All that is known of one position."""
    last = explained.rows[-1]
    name = next((row.role for row in reversed(explained.rows) if row.role), None) or last.kind
    lines = [f"{explained.name}  {name}" + (f" on node {last.node_id}" if last.node_id else "") + f"  {last.call_id}"]
    for attempt in explained.attempts:
        lines += [f"  {words}" for words in _attempt_lines(attempt)]
    if plan is not None:
        lines.append(f"  on a resume now: {_WORDS[plan.decision]}")
        lines += [f"    {words}" for words in _failed_lines(plan.because)] if plan.because else []
        lines += [f"    {plan.note}"] if plan.because is None and plan.note else []
        if plan.decision is Planned.LIVE and plan.tokens_last_time is not None:
            lines.append(f"    it cost {count(plan.tokens_last_time)} tokens last time")
    return lines


def _attempt_lines(attempt: Attempt) -> list[str]:
    began = "went on in place" if attempt.in_place else "ran"
    by = _process_words(attempt.process)
    end = f"ended {attempt.ended}" if attempt.ended else "has not ended"
    reason = f" ({attempt.reason})" if attempt.reason and attempt.ended != "superseded" else ""
    cost = f", {count(attempt.tokens)} tokens" if attempt.tokens is not None else ""
    lines = [f"attempt {attempt.number + 1}: {began}{by}, {end}{reason}{cost}"]
    if attempt.superseded is not None:
        lines.append(f"  taken back by {attempt.superseded_in or f'process {attempt.superseded_by}'}:")
        lines += [f"    {words}" for words in _failed_lines(attempt.superseded)]
    elif attempt.superseded_by is not None or attempt.ended == "superseded":
        lines.append(f"  taken back ({attempt.reason or 'host_lost'})")
    return lines


def _process_words(process: str | None) -> str:
    if process is None:
        return ""
    return " when the run began" if process == "start" else f" in {process}"


def _failed_lines(failed: Failed) -> list[str]:
    lines = [f"({failed.condition}) {CONDITIONS.get(failed.condition, '')}: {failed.sentence}"]
    for name, value in failed.facts.items():
        if isinstance(value, (list, tuple)) and len(value) == 2:
            lines.append(f"{name}: recorded {one_line(str(value[0]), 80)}, now {one_line(str(value[1]), 80)}")
        else:
            lines.append(f"{name}: {one_line(str(value), 120)}")
    return lines


def explained_record(explained: Explained, plan: PlannedPosition | None) -> dict[str, Any]:
    """One position as a JSON object."""
    last = explained.rows[-1]
    return {
        "position": explained.name,
        "call": last.call_id,
        "kind": last.kind,
        "node": last.node_id,
        "attempts": [attempt.to_json() for attempt in explained.attempts],
        "resume": plan.to_json() if plan is not None else None,
    }


def _end_word(newest: Attempt) -> str:
    """How the newest attempt stands; what it ended with stands no more when it was taken back and none followed it."""
    if newest.superseded is not None or newest.superseded_by is not None:
        return "taken back"
    return newest.ended or "open"


def explain_table(found: Sequence[Explained], plan: Plan | None) -> Table:
    """Every position on one line: how its newest attempt came about, and what a resume would do."""
    planned = {place_name(one.place): one for one in plan.positions} if plan is not None else {}
    heads = ("LANE", "POS", "CALL", "NODE", "ATTEMPT", "ENDED", "WHY TAKEN BACK", "ON A RESUME", "WHY")
    rows = []
    for one in found:
        last, newest = one.rows[-1], one.attempts[-1]
        taken = [attempt.superseded for attempt in one.attempts if attempt.superseded is not None]
        now = planned.get(one.name)
        name = next((row.role for row in reversed(one.rows) if row.role), None) or last.kind
        rows.append(
            (
                lane_name(one.place[0]), str(one.place[1]), name, last.node_id or "", str(newest.number + 1),
                _end_word(newest), one_line(failed_words(taken[-1]), 80) if taken else "",
                _WORDS[now.decision] if now else "", why_words(now) if now else "",
            )
        )  # fmt: skip
    return drop_empty(Table(heads, tuple(rows), frozenset({"POS", "ATTEMPT"})))

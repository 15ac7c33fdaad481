"""A group as the parameters of `crw_append`: arrays of composites, numbered, one entry a right and one a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg2

from shared.journal.composites import array, composite
from shared.journal.encoding import Encoded
from shared.journal.members import Claim, RunLease
from shared.journal.meta import WRITER

Right = Claim | RunLease
Group = Sequence[tuple[Right, Encoded]]


def append_parameters(host: str | None, group: Group) -> dict[str, Any]:
    """The parameters that write a group. Numbers its rows: `start` within a run's share, `before` within a right's."""
    claims: dict[tuple[str, int | None], dict[str, Any]] = {}
    runs: dict[str, dict[str, Any]] = {}
    claimed = 0
    uses: list[str] = []
    events: list[str] = []
    rows: list[str] = []
    opens: list[str] = []
    details: list[str] = []
    results: list[Any] = []
    withdraw = None
    for right, encoded in group:
        run = _share_of_run(runs, right, encoded)
        if isinstance(right, Claim):
            claimed += (right.call_id, right.fence) not in claims
            encoded.before = _share_of_claim(claims, right, encoded)
            if encoded.sends and right.node_id is not None and not right.sent:
                uses.append(right.call_id)
        else:
            encoded.before = run["sched"]
            run["sched"] += encoded.size
            withdraw = right.run_id if encoded.withdraw else withdraw
            for call, attempt in encoded.touched.items():
                claims[call, None] = {"call": call, "attempt": attempt, "takes": call in encoded.takes_open}
        encoded.start = run["n"]
        stored = {id(row): result for row, result in encoded.results}
        for place, row in enumerate((*encoded.events, *encoded.rows)):
            details.append(row["detail"])
            if id(row) in stored:
                # At the place of its detail; what comes behind the last one is null by itself.
                results += [None] * (len(details) - 1 - len(results))
                results.append(psycopg2.Binary(stored[id(row)]))
            into = events if place < len(encoded.events) else rows
            into.append(f"{run['r']},{run['n'] + place},{len(details)},{encoded.texts[place]}")
        run["n"] += encoded.size
        opens += encoded.open_texts
    return {
        "host": host, "writer": WRITER, "claimed": claimed,
        "claims": array([composite("crw_claim_part", claim) for claim in claims.values()]),
        "runs": array([composite("crw_run_part", run) for run in runs.values()]),
        "uses": uses, "withdraw": withdraw, "rows": array(rows), "events": array(events), "opens": array(opens),
        # One line each: what is stored as JSON has no line breaks.
        "details": "\n".join(details), "results": results,
    }  # fmt: skip


def runs_of(group: Group) -> list[str]:
    """The runs of a group in the order of its parameter `runs`."""
    return list(dict.fromkeys(encoded.run_id for _, encoded in group))


def _share_of_run(runs: dict[str, dict[str, Any]], right: Right, encoded: Encoded) -> dict[str, Any]:
    run = runs.get(encoded.run_id)
    if run is None:
        run = runs[encoded.run_id] = {
            "run": encoded.run_id, "r": len(runs) + 1, "n": 0, "sched": 0, "turns": 0, "intent": False,
            "progress": False, "finish": False,
        }  # fmt: skip
    run["turns"] += encoded.turns
    for name in ("intent", "progress", "finish"):
        if getattr(encoded, name):
            run[name] = True
    if isinstance(right, RunLease):
        run |= {"scheduler": right.scheduler_id, "epoch": right.epoch, "wrote": right.rows_written}
    return run


def _share_of_claim(claims: dict[tuple[str, int | None], dict[str, Any]], right: Claim, encoded: Encoded) -> int:
    """Adds a member to its claim's entry; returns how many rows of the group stand before it under this claim."""
    claim = claims.get((right.call_id, right.fence))
    if claim is None:
        claim = claims[right.call_id, right.fence] = {
            "call": right.call_id, "fence": right.fence, "wrote": right.rows_written, "n": 0, "sends": False,
            "terminal": False,
        }  # fmt: skip
    before: int = claim["n"]
    claim["n"] += encoded.size
    claim["sends"] = claim["sends"] or encoded.sends
    claim["terminal"] = claim["terminal"] or encoded.terminal
    return before


def judge_parameters(group: Group) -> dict[str, str]:
    """The group as `crw_judge` takes it: its members, numbered by `append_parameters`, their opens and their rows."""
    turns: dict[str, int] = {}
    members, opens, rows = [], [], []
    for number, (right, encoded) in enumerate(group):
        turns[encoded.run_id] = turns.get(encoded.run_id, 0) + encoded.turns
        member: dict[str, Any] = {
            "m": number, "run": encoded.run_id, "wrote": right.rows_written, "before": encoded.before,
            "n": encoded.size, "intent": encoded.intent, "turns": encoded.turns,
            "turns_so_far": turns[encoded.run_id], "withdraw": encoded.withdraw, "finish": encoded.finish,
        }  # fmt: skip
        if isinstance(right, Claim):
            member |= {"call": right.call_id, "fence": right.fence}
        else:
            member |= {"scheduler": right.scheduler_id, "epoch": right.epoch}
        members.append(member)
        opens += [{"m": number, "call": opened["call"], "attempt": opened["attempt"]} for opened in encoded.opens]
        rows += [
            {"m": number, "call": row["call"], "fence": row.get("fence"), "takes": row.get("takes")}
            for row in encoded.rows
        ]
    return {"members": json.dumps(members), "opens": json.dumps(opens), "rows": json.dumps(rows)}

"""A group as the parameters of `crw_append`: JSON arrays, numbered, one entry a right and one a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg2

from shared.journal.encoding import Encoded
from shared.journal.members import Claim, RunLease
from shared.journal.meta import WRITER

Right = Claim | RunLease
Group = Sequence[tuple[Right, Encoded]]


def append_parameters(host: str | None, group: Group) -> dict[str, Any]:
    """The parameters that write a group. Numbers its rows: `k` within a run's share, `before` within a right's."""
    claims: dict[tuple[str, int | None], dict[str, Any]] = {}
    runs: dict[str, dict[str, Any]] = {}
    uses: list[str] = []
    rows: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    opens: list[dict[str, Any]] = []
    results: list[Any] = []
    withdraw = None
    for number, (right, encoded) in enumerate(group):
        run = _share_of_run(runs, right, encoded)
        if isinstance(right, Claim):
            encoded.before = _share_of_claim(claims, right, encoded)
            if encoded.sends and right.node_id is not None and not right.sent:
                uses.append(right.call_id)
        else:
            encoded.before = run["sched"]
            run["sched"] += encoded.size
            withdraw = right.run_id if encoded.withdraw else withdraw
            for call, attempt in encoded.touched.items():
                claims[call, None] = {"call": call, "attempt": attempt, "takes": call in encoded.takes_open}
        for row in (*encoded.events, *encoded.rows):
            row["k"] = run["n"]
            row["m"] = number
            run["n"] += 1
        for row, result in encoded.results:
            results.append(psycopg2.Binary(result))
            row["res"] = len(results)
        for opened in encoded.opens:
            opened["m"] = number
        rows += encoded.rows
        events += encoded.events
        opens += encoded.opens
    return {
        "host": host, "writer": WRITER, "claims": _json(list(claims.values())), "runs": _json(list(runs.values())),
        "uses": uses, "withdraw": withdraw, "rows": _json(rows) if rows else None,
        "events": _json(events) if events else None, "opens": _json(opens) if opens else None, "results": results,
    }  # fmt: skip


def _share_of_run(runs: dict[str, dict[str, Any]], right: Right, encoded: Encoded) -> dict[str, Any]:
    run = runs.get(encoded.run_id)
    if run is None:
        run = runs[encoded.run_id] = {
            "run": encoded.run_id, "n": 0, "sched": 0, "turns": 0, "intent": False, "progress": False, "finish": False,
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


def judge_parameters(group: Group) -> str:
    """The members as `crw_judge` takes them; `append_parameters` has numbered them."""
    turns: dict[str, int] = {}
    members = []
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
    return _json(members)


# Made once: `json.dumps` makes one for each call, and our data has no cycles.
_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

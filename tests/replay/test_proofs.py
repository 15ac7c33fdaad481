"""The proofs over recorded rows: each file in `proofs/` is a node's rows, git's facts, and what is not proven then.

Names stand for ids: `c0` and `c1` are recorded commits, `x1` one that nobody recorded, `P1` a
tree that a call left, `T0` the tree of the start, `X` one that nobody left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.model.proof import HeldState, Verdict
from shared.model.rows import CallRow
from tests.factories import make_call_row
from workers.proofs.commit_chain import Head, NodeFacts
from workers.proofs.executor import judge_executors, view_node
from workers.proofs.ops import judge_commits, judge_held, judge_thread
from workers.proofs.record import NodeRecord, read_nodes

HISTORIES = sorted((Path(__file__).parent / "proofs").glob("*.json"))


def load(path: Path) -> Any:
    history = json.loads(path.read_text())
    marks = [pytest.mark.req(*history["req"])]
    return pytest.param(history, id=path.stem, marks=marks)


def read_rows(history: Mapping[str, Any]) -> list[CallRow]:
    rows = []
    for seq, recorded in enumerate(history["rows"], 1):
        columns = dict(recorded)
        call = columns.pop("call")
        attempt = columns.get("attempt", 0)
        fixed = {"seq": seq, "call_id": call, "node_id": "n", "host": "h1", "request_id": f"{call}-{attempt}"}
        rows.append(make_call_row(**{**fixed, **columns}))
    return rows


def read_facts(facts: Mapping[str, Any]) -> NodeFacts:
    head = facts["head"]
    if head is not None:
        head = Head(**{**head, "parents": tuple(head.get("parents", ()))})
    return NodeFacts(head, frozenset(facts["in_head"]), facts["snapshot"])


def judge(record: NodeRecord, facts: NodeFacts) -> dict[str, Verdict]:
    view = view_node(record, facts)
    assert view is not None
    return judge_executors(view, facts) | judge_commits(view, facts)


def judge_holds(record: NodeRecord, facts: Mapping[str, Any]) -> dict[str, HeldState]:
    found = {}
    for turned in record.turned:
        if turned.newest and turned.status == "held":
            kept = facts.get("kept", {}).get(turned.kept_on)
            state = judge_held(turned, facts["snapshot"], None, kept)
            found[turned.call_id] = judge_thread(state, turned.reason, facts.get("threads", {}).get(turned.thread_id))
    return found


@pytest.mark.parametrize("history", [load(path) for path in HISTORIES])
def test_the_same_rows_and_the_same_git_give_the_recorded_verdicts(history: Mapping[str, Any]) -> None:
    facts = read_facts(history["facts"])
    record = read_nodes(read_rows(history))["n"]

    verdicts = judge(record, facts)

    assert {call: verdict.reason for call, verdict in verdicts.items()} == history["unproven"], history["says"]
    assert all(verdict.sentence and not verdict.proven for verdict in verdicts.values())
    held = {
        call: {name: value for name, value in state.to_json().items() if value is not None and name != "sentence"}
        for call, state in judge_holds(record, history["facts"]).items()
    }
    assert held == history.get("held", {}), history["says"]


@pytest.mark.parametrize("history", [load(path) for path in HISTORIES])
def test_files_that_are_not_asked_for_decide_nothing(history: Mapping[str, Any]) -> None:
    facts = read_facts(history["facts"])
    record = read_nodes(read_rows(history))["n"]
    view = view_node(record, facts)
    assert view is not None

    if not view.needs_snapshot:
        assert judge(record, facts) == judge(record, replace(facts, snapshot=None))


@pytest.mark.req("P01")
@pytest.mark.parametrize("history", [load(path) for path in HISTORIES])
def test_the_order_in_which_rows_are_read_decides_nothing(history: Mapping[str, Any]) -> None:
    facts = read_facts(history["facts"])
    rows = read_rows(history)

    assert judge(read_nodes(rows)["n"], facts) == judge(read_nodes(reversed(rows))["n"], facts)

"""What a run and a plan of it have in common: how the script is run, and what is known before it begins.

Source: journal document, "The resume walk".
"""

from __future__ import annotations

from typing import Any

from scheduler.flow.api import Flow
from scheduler.flow.joins import without_exit
from scheduler.flow.opening import Positions
from scheduler.flow.path import Path, enter_path
from scheduler.flow.result import as_data
from scheduler.flow.script import Script
from scheduler.resume.history import History
from shared.broker.names import AGENT_KIND
from shared.model.ops import writes_node
from shared.model.position import ROOT_PATH
from shared.model.spec import RunSpec


async def run_script(script: Script, flow: Flow, positions: Positions) -> Any:
    """What the script's `main` returns, as JSON data."""
    enter_path(Path(ROOT_PATH))
    return await without_exit(_load_and_call(script, flow, positions))


async def _load_and_call(script: Script, flow: Flow, positions: Positions) -> Any:
    main = script.load()
    result = as_data(await main(flow, flow.args))
    await positions.deciding.end()
    return result


def drive_word(resumes: int, history: History) -> str:
    """How a process comes to drive a run: `start`, `resume` when one was asked for that nobody began, or `takeover`.

    Args:
        resumes: how many were asked for.
    """
    if resumes > history.resumes:
        return "resume"
    return "takeover" if history.lineage else "start"


def unknown_nodes(history: History, spec: RunSpec) -> dict[str, str]:
    """Node -> a call that wrote it and whose outcome nobody knows."""
    found: dict[str, str] = {}
    for row in history.unknown_calls():
        role = spec.roles.get(row.role or "")
        writes = role.writes if row.kind == AGENT_KIND and role is not None else writes_node(row.kind)
        if writes and row.node_id is not None:
            found[row.node_id] = row.call_id
    return found

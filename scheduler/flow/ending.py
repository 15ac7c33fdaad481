"""The rows at both ends of a drive: `started` with the run's identity, `finished` with how it ended.

A script may be over while calls are at work. Then an `ending` row says first how the run
ends, so that whoever goes on after a death ends it that way and no other.
Source: journal document, "Persistence" (run rows, identity of the run).
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scheduler.flow.failure import describe_failure
from scheduler.flow.script import Script
from scheduler.resume.history import History
from scheduler.resume.walk import mismatch_of_end
from shared.base.canonical import canonical_bytes, digest_json
from shared.base.log import get_logger
from shared.model.rows import EventRow, NewEventRow, Row
from shared.model.spec import FORMAT, RunSpec

_MEMBERS = ("error_kind", "message", "traceback", "by")


@dataclass(frozen=True)
class End:
    """How a run ended, as its `finished` row says it.

    Shape: `message` one sentence for people, `traceback` the script's own frames;
    `result` what main returned.
    """

    status: str
    error_kind: str | None = None
    message: str | None = None
    traceback: str | None = None
    result: Any = None
    by: str | None = None

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this end."""
        return self.error_kind == "cancelled"

    def row(self, **more: Any) -> NewEventRow:
        """The run's last row; members without a value are left out, the result of a completed run is not."""
        return NewEventRow("finished", {**self._data(), **more, "result": self.result})

    def early_row(self) -> NewEventRow:
        """The row that holds this end while calls are still at work."""
        return NewEventRow("ending", {**self._data(), "result": self.result})

    def _data(self) -> dict[str, Any]:
        data = {name: value for name in _MEMBERS if (value := getattr(self, name)) is not None}
        return {"status": self.status, **data}


CANCELLED = End("script_error", "cancelled", "the run was cancelled", by="operator")


def recorded_end(rows: Iterable[Row]) -> End | None:
    """How an earlier process saw the script end; None when it did not come to that, or the run was resumed since."""
    found: End | None = None
    for row in rows:
        if not isinstance(row, EventRow):
            continue
        if row.kind == "ending":
            told = {name: row.data.get(name) for name in _MEMBERS}
            found = End(str(row.data["status"]), **told, result=row.data.get("result"))
        elif row.kind == "finished":
            found = None
    return found


def started_row(spec: RunSpec, history: History, how: str) -> NewEventRow:
    """The row of a process that begins to drive the run; the first one keeps the run's identity.

    Args:
        how: `start`, `resume` when somebody asked for it, `takeover` when the process before is gone.
    """
    python = ".".join(platform.python_version_tuple()[:2])
    if history.python not in (None, python):
        get_logger().warning("python_changed", recorded=history.python, now=python)
    return NewEventRow(
        "started",
        {
            "lineage": history.lineage, "how": how, "workflow": spec.workflow, "script": spec.script,
            "sources": dict(spec.sources), "args_digest": digest_json(spec.args), "spec_digest": spec.digest(),
            "base": spec.base, "target": spec.target, "backend": spec.backend, "python": python, "format": FORMAT,
        },
    )  # fmt: skip


def mismatch_end(run_id: str, sentence: str) -> End:
    """The end of a run whose script does not repeat its record."""
    return End(
        "replay_mismatch",
        "replay_mismatch",
        f"the script does not repeat what was recorded: {sentence}; 'crw flow check' names what is not deterministic, "
        f"and 'crw flow resume {run_id}' goes on: what still replays is kept, the rest is taken back and runs live "
        "(--plan shows it first)",
    )


def fault_of(result: Any) -> str | None:
    """Why what main returned is no result of a run, in a sentence; None where it is one."""
    try:
        canonical_bytes(result)
    except (TypeError, ValueError) as fault:
        return f"main returned what is no JSON data: {fault}"
    return None


def end_of_script(run_id: str, main: asyncio.Task[Any], script: Script, history: History, *, asked: bool) -> End:
    """The end of a run whose script came to its own: a result, an error, or a record it did not come to.

    Args:
        asked: somebody asked for this resume: what the script does not come to any more is superseded, no mismatch.
    """
    if main.cancelled():
        return End("script_error", "script", "the script cancelled itself")
    error = main.exception()
    if error is not None:
        message, traceback = describe_failure(error, script)
        return End("script_error", "script", message, traceback)
    result = main.result()
    if (fault := fault_of(result)) is not None:
        return End("script_error", "script", fault)
    left = history.places_left()
    if left and not asked:
        return mismatch_end(run_id, mismatch_of_end(left).sentence)
    return End("completed", result=result)

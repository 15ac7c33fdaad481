"""Rows made quickly: what a test does not name gets a value that fits.

`RunRows("r…")` numbers its rows as the journal would: `rows.call("build", "prepared")`,
`rows.event("phase", name="design")`, and `rows.rows` has them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.base.ids import call_id, request_id
from shared.model.outcome import Ended, Meta, Status
from shared.model.rows import CallRow, EventRow, Row

RUN = "raaaaaaaaaaaa"
BEGIN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def make_call_row(**given: Any) -> CallRow:
    """A call row with plain defaults; every column can be given by name."""
    run, path, position = given.get("run_id", RUN), given.get("path", "main"), given.get("position", 1)
    call = given.get("call_id", call_id(run, path, position))
    values: dict[str, Any] = dict.fromkeys(CallRow.__struct_fields__)
    values.update(
        run_id=run,
        seq=1,
        call_id=call,
        path=path,
        position=position,
        attempt=0,
        kind="agent",
        event="prepared",
        request_id=request_id(run, call, given.get("attempt", 0)),
        written_at=BEGIN,
        detail={},
    )
    return CallRow(**{**values, **given})


def make_event_row(**given: Any) -> EventRow:
    """An event row with plain defaults."""
    values: dict[str, Any] = {
        "run_id": RUN,
        "seq": 1,
        "kind": "log",
        "path": None,
        "position": None,
        "op": None,
        "label": None,
        "written_at": BEGIN,
        "data": {},
    }
    return EventRow(**{**values, **given})


def make_ended(
    kind: str = "agent", status: str = "completed", output: Any = None, reason: str | None = None, **given: Any
) -> Ended:
    """The end of a call; members of its `Meta` and its `facts` can be given by name."""
    facts, digest = given.pop("facts", {}), given.pop("result_digest", None)
    return Ended(Status(status), output, reason, Meta("c1", kind, **given), digest, facts)


class RunRows:
    """A run's rows in the making, a second apart, with dense numbers from 1."""

    def __init__(self, run_id: str = RUN) -> None:
        self.run_id = run_id
        self.rows: list[Row] = []

    def _place(self) -> dict[str, Any]:
        seq = len(self.rows) + 1
        return {"run_id": self.run_id, "seq": seq, "written_at": BEGIN + timedelta(seconds=seq)}

    def call(self, event: str, *, path: str = "main", position: int = 1, **given: Any) -> CallRow:
        """Add a row of the call at a position."""
        row = make_call_row(**self._place(), event=event, path=path, position=position, **given)
        self.rows.append(row)
        return row

    def event(self, kind: str, data: Mapping[str, Any] | None = None, **given: Any) -> EventRow:
        """Add a row of the run or its flow."""
        row = make_event_row(**self._place(), kind=kind, data=data or {}, **given)
        self.rows.append(row)
        return row

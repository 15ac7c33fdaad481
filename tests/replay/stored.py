"""A recorded history on disk: what a run is, what it recorded, what its hosts say, and the decisions that follow.

Shape of a file: `spec` and `sources` (name -> text) of the run; `rows` in their order, calls and events; `verdicts`
{unproven, moved} by place; `facts` from outside by node, as they are now; `asked` whether somebody asked for the
resume; `end` and `decisions` what a plan of it must give. Reading one needs no server.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from scheduler.planning import plan_resume
from scheduler.resume.plan import Plan
from shared.model import ops
from shared.model.proof import HeldState, Verdict
from shared.model.rows import CallRow, EventRow, Row
from shared.model.spec import RunSpec
from tests.integration.engine.verdicts import Verdicts

ops.register(ops.NOOP)
FOLDER = Path(__file__).parent / "histories"
FORMAT = 1


@dataclass(frozen=True)
class Stored:
    """One history."""

    name: str
    run_id: str
    spec: RunSpec
    sources: Mapping[str, str]
    rows: Sequence[Row]
    verdicts: Verdicts = field(default_factory=Verdicts)
    facts: Mapping[str, Mapping[str, Any]] | None = None
    asked: bool = True
    end: str = ""
    decisions: Sequence[Mapping[str, Any]] = ()

    def plan(self) -> Plan:
        """What a resume of it would do."""
        sources = {name: text.encode() for name, text in self.sources.items()}
        facts = self.facts
        inputs = (lambda kind, asks: facts.get(asks.get("node") or "")) if facts is not None else None
        return asyncio.run(
            plan_resume(self.run_id, self.spec, sources, self.rows, self.verdicts, asked=self.asked, inputs=inputs)
        )


def decisions_of(plan: Plan) -> list[dict[str, Any]]:
    """The part of a plan that a history keeps."""
    kept = ("position", "kind", "decision", "condition", "sentence", "differs")
    return [{name: one.to_json()[name] for name in kept} for one in plan.positions]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> Stored:
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert data["format"] <= FORMAT
    verdicts = Verdicts(
        {place: Verdict.from_json(one) for place, one in data["verdicts"]["unproven"].items()},
        {place: HeldState.from_json(one) for place, one in data["verdicts"]["moved"].items()},
    )
    return Stored(
        name, data["run"], RunSpec.from_json(data["spec"]), data["sources"], [_row(row) for row in data["rows"]],
        verdicts, data["facts"], data["asked"], data["end"], data["decisions"],
    )  # fmt: skip


def store(history: Stored) -> None:
    """Write a history with the decisions that it gives now."""
    plan = history.plan()
    data = {
        "format": FORMAT, "run": history.run_id, "spec": history.spec.to_json(), "sources": dict(history.sources),
        "verdicts": {
            "unproven": {place: one.to_json() for place, one in history.verdicts.unproven.items()},
            "moved": {place: one.to_json() for place, one in history.verdicts.moved.items()},
        },
        "facts": history.facts, "asked": history.asked, "end": plan.end, "decisions": decisions_of(plan),
        "rows": [_plain(row) for row in history.rows],
    }  # fmt: skip
    text = json.dumps(data, indent=1, ensure_ascii=False, sort_keys=True)
    (FOLDER / f"{history.name}.json").write_text(text + "\n", encoding="utf-8")


def _plain(row: Row) -> dict[str, Any]:
    values = {name: value for name, value in asdict(row).items() if value is not None and name != "run_id"}
    values["written_at"] = row.written_at.isoformat()
    if isinstance(row, CallRow) and row.result is not None:
        values["result"] = base64.b64encode(row.result).decode()
    return {"run": row.run_id, **values}


def _row(data: Mapping[str, Any]) -> Row:
    kind: type[CallRow] | type[EventRow] = CallRow if "call_id" in data else EventRow
    values: dict[str, Any] = dict.fromkeys(kind.__struct_fields__)
    values |= {name: value for name, value in data.items() if name != "run"}
    values["run_id"] = data["run"]
    values["written_at"] = datetime.fromisoformat(data["written_at"])
    if values.get("result") is not None:
        values["result"] = base64.b64decode(values["result"])
    return kind(**values)

"""What the demo shows at its end: the target's history, each call with its turns and tokens, where to look next."""

from __future__ import annotations

import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deploy.demo.repository import MAIN, read_commit, show_graph
from deploy.processes import program
from shared.journal.database import Database
from shared.journal.read import load
from shared.journal.replay import read_call_result
from shared.journal.runs import list_runs
from shared.model.rows import CallRow


@dataclass(frozen=True)
class CallLine:
    """One call of the run.

    Shape: `what` is the role or the op; `seconds` from its first row to its last; `said` what came out, in short.
    """

    node: str | None
    what: str
    host: str | None
    status: str
    turns: int
    tokens: int | None
    seconds: float
    said: str


@dataclass(frozen=True)
class Report:
    """The end of a demo. `commit` is the target's, None when there is none."""

    run_id: str
    completed: bool
    target: str
    commit: str | None
    graph: str
    calls: tuple[CallLine, ...]
    repository: Path
    seconds: float

    def as_record(self, kept: Path | None) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "run": self.run_id,
            "status": "completed" if self.completed else "error",
            "target": self.target,
            "commit": self.commit,
            "graph": self.graph.splitlines(),
            "calls": [asdict(line) for line in self.calls],
            "seconds": round(self.seconds, 1),
            "directory": str(kept) if kept else None,
        }

    def as_text(self, kept: Path | None, *, color: bool) -> str:
        """Lines for people."""
        graph = show_graph(self.repository, self.target, color=color) if self.commit else "the target was not made\n"
        turns = sum(line.turns for line in self.calls)
        tokens = sum(line.tokens or 0 for line in self.calls)
        lines = [
            "",
            f"$ git log --graph {self.target}",
            graph,
            *_table(self.calls),
            "",
            f"{len(self.calls)} calls, {turns} turns, {tokens} tokens (the scripted model's) in {self.seconds:.0f} s: "
            + ("integrated" if self.completed else "the run ended in an error"),
            "",
            *_next_steps(self.completed, kept),
        ]
        return "\n".join(lines)


def make_report(database: Database, repository: Path, target: str, *, exit_status: int, seconds: float) -> Report:
    """Read the demo's one run back from the journal, and its target from git."""
    run = list_runs(database, limit=1, state=None)[0]
    calls: dict[str, list[CallRow]] = {}
    for row in load(database, run.run_id):
        if isinstance(row, CallRow):
            calls.setdefault(row.call_id, []).append(row)
    try:
        commit: str | None = read_commit(repository, target)
        graph = show_graph(repository, target)
    except subprocess.CalledProcessError:
        commit, graph = None, ""
    return Report(
        run_id=run.run_id,
        completed=exit_status == 0 and commit is not None and commit != read_commit(repository, MAIN),
        target=target,
        commit=commit,
        graph=graph,
        calls=tuple(_line(rows) for rows in calls.values()),
        repository=repository,
        seconds=seconds,
    )


def _line(rows: list[CallRow]) -> CallLine:
    ended = read_call_result(rows)
    first, last = rows[0], rows[-1]
    return CallLine(
        node=first.node_id,
        what=first.role or first.kind,
        host=next((row.host for row in reversed(rows) if row.host), None),
        status=str(ended.status) if ended else "open",
        turns=ended.meta.turns if ended else 0,
        tokens=ended.meta.tokens if ended else None,
        seconds=round((last.written_at - first.written_at).total_seconds(), 2),
        said=_said(first.kind, ended.output if ended else None),
    )


def _said(kind: str, output: Any) -> str:
    """What an output comes down to; empty where there is none."""
    if not isinstance(output, dict):
        return ""
    if kind == "verify":
        return "passed" if output.get("passed") else "failed"
    if "nodes" in output:
        return f"planned {len(output['nodes'])} lanes"
    commit = output.get("commit")
    return commit[:7] if isinstance(commit, str) else str(output.get("summary", ""))


def _table(calls: tuple[CallLine, ...]) -> list[str]:
    head = ("node", "call", "host", "status", "turns", "tokens", "seconds", "result")
    body = [
        (
            line.node or "-",
            line.what,
            line.host or "-",
            line.status,
            str(line.turns or "-"),
            str(line.tokens if line.tokens is not None else "-"),
            f"{line.seconds:.1f}",
            line.said,
        )
        for line in calls
    ]
    widths = [max(len(row[column]) for row in (head, *body)) for column in range(len(head))]
    rows = ((cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *body))
    return ["  ".join(row).rstrip() for row in rows]


def _next_steps(completed: bool, kept: Path | None) -> list[str]:
    crw = program()
    steps: list[tuple[str, str]] = []
    if not completed:
        steps.append((f"{crw} doctor", "whether something is missing here, the agents' sandbox for instance"))
    if kept is not None:
        steps.append((f"git -C {kept / 'wordkit'} log --all --stat", "what the agents wrote"))
        steps.append((f"ls {kept / 'log'}", "what the processes said"))
    else:
        steps.append((f"{crw} demo --keep", "leaves repository, journal and logs to look at"))
    steps.append((f"{crw} demo --flower", "the same calls as tasks in Flower"))
    steps.append((f"{crw} up --scripted", "a farm that stays, for flows of your own"))
    steps.append(("README.md", "how to write a flow, use a real model, add machines"))
    width = max(len(what) for what, _why in steps)
    return ["Where to look next:", *(f"    {what.ljust(width)}  {why}" for what, why in steps)]

"""The cells: every row kind that the engine writes × its boundaries × the faults. Pure but for reading the source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from shared.model.events import ROW_KINDS, RowClass
from tests.drill.scenarios import Scenario

_ROOT = Path(__file__).resolve().parents[2]
# A row's word is the first argument of these.
_SPEAKERS = frozenset({"NewCallRow", "NewEventRow", "Verdict", "_note"})
_REAL_SCENARIOS = frozenset({"turns", "work"})
# Rows of calls that no worker writes.
_SCHEDULER_WORDS = frozenset({"prepared", "withdrawn", "superseded", "hold_cleared"})


class Boundary(StrEnum):
    """Where in the life of a row the fault strikes."""

    BEFORE = "before commit"
    AFTER = "after commit, before the answer"
    SENT = "after the send, before the answer"
    NEXT = "after the effect, before the next row"


class Fault(StrEnum):
    """What happens there."""

    KILL = "SIGKILL the writer"
    CUT = "cut its database connection"
    SERVER = "kill the App Server"
    EXPIRE = "expire the lease"


@dataclass(frozen=True)
class Cell:
    """One point and one fault."""

    scenario: str
    word: str
    boundary: Boundary
    fault: Fault

    @property
    def name(self) -> str:
        """For people and for `--only`."""
        return f"{self.word}/{self.boundary.name.lower()}/{self.fault.name.lower()}"

    @property
    def victim(self) -> str:
        """Who writes the row: `worker` or `scheduler`."""
        flow = ROW_KINDS[self.word].row_class in (RowClass.FLOW, RowClass.RUN)
        return "scheduler" if flow or self.word in _SCHEDULER_WORDS else "worker"

    @property
    def point(self) -> str | None:
        """The named point of the process; None where the send itself is struck."""
        prefix = {Boundary.BEFORE: "before", Boundary.AFTER: "after", Boundary.NEXT: "next"}.get(self.boundary)
        return f"{prefix}:{self.word}" if prefix else None


def written_words() -> frozenset[str]:
    """The row kinds that the product's code writes: the words it makes rows of."""
    found: set[str] = set()
    for package in ("shared", "scheduler", "workers"):
        for file in (_ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and node.args and _name(node.func) in _SPEAKERS:
                    found |= {part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)}
                elif isinstance(node, ast.keyword) and node.arg == "withdraw":
                    found.add("withdrawn")
    return frozenset(found & ROW_KINDS.keys())


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def boundaries(word: str) -> tuple[Boundary, ...]:
    """The boundaries a row kind has: one that sends has an answer to wait for, the last row of a run has no next.

    Nor has the first row of a recovery: the others are committed with it.
    """
    kind = ROW_KINDS[word]
    sent = (Boundary.SENT,) if kind.sends else ()
    following = () if word in ("finished", "recovery_cleared") else (Boundary.NEXT,)
    return (Boundary.BEFORE, Boundary.AFTER, *sent, *following)


def choose_real(cells: Iterable[Cell], count: int) -> list[Cell]:
    """`count` cells that a real App Server can be brought to, evenly spread: it does not fail on demand."""
    possible = [
        cell for cell in cells if cell.scenario in _REAL_SCENARIOS and (cell.point or cell.word == "push_requested")
    ]
    return thin_out(possible, count)


def choose_movable(cells: Iterable[Cell], scenarios: Mapping[str, Scenario]) -> list[Cell]:
    """The cells whose flow can go on elsewhere at any point: a call to be recovered has all there is on its host."""
    return [cell for cell in cells if not scenarios[cell.scenario].recover]


def make_cells(words: Iterable[str], scenarios: Mapping[str, Scenario]) -> list[Cell]:
    """All cells, in the order of the table of row kinds."""
    chosen = set(words)
    return [
        Cell(_scenario_for(word, scenarios), word, boundary, fault)
        for word in ROW_KINDS
        if word in chosen
        for boundary in boundaries(word)
        for fault in Fault
    ]


def _scenario_for(word: str, scenarios: Mapping[str, Scenario]) -> str:
    own = (scenario.name for scenario in scenarios.values() if scenario.kinds and word in scenario.kinds)
    return next(own, next(iter(scenarios)))


def thin_out(cells: list[Cell], count: int) -> list[Cell]:
    """`count` of the cells, evenly spread and always the same ones."""
    if count >= len(cells):
        return cells
    return [cells[index * len(cells) // count] for index in range(count)]

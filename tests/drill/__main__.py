"""`python -m tests.drill`: run the cells, two at a time, and write the report."""

from __future__ import annotations

import argparse
import fnmatch
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.drill.cells import Cell, boundaries, choose_movable, choose_real, make_cells, thin_out, written_words
from tests.drill.outcome import Outcome
from tests.drill.run import run_cell
from tests.drill.scenarios import make_scenarios
from tests.drill.stage import Stage
from tests.nursery import ROOT
from tests.services import fast_directory

REPORT = ROOT / "build" / "drill.json"
AT_LEAST = 200
REAL_CELLS = 20


def main() -> int:
    """Run what is asked for; 0 when every cell passed and none is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("--cells", type=int, help="run no more than this many, evenly spread")
    parser.add_argument("--real", type=int, default=REAL_CELLS, help="how many run on the real App Server as well")
    parser.add_argument(
        "--only", action="append", help="run the cells whose name fits this pattern, for instance 'turn_*/*/kill'"
    )
    parser.add_argument(
        "--host",
        choices=("same", "other"),
        default="same",
        help="other: after each fault the first host is given up with its state directory, and another one goes on",
    )
    parser.add_argument("--at-once", type=int, default=2, help="how many cells run at the same time")
    asked = parser.parse_args()
    elsewhere = asked.host == "other"
    scenarios = make_scenarios(ROOT, "")
    cells = make_cells(written_words(), scenarios)
    if elsewhere:
        cells = choose_movable(cells, scenarios)
    if asked.only:
        cells = [cell for cell in cells if any(fnmatch.fnmatch(cell.name, pattern) for pattern in asked.only)]
    cells = thin_out(cells, asked.cells or len(cells))
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crw-drill-", dir=fast_directory()) as directory:
        with closing(Stage(Path(directory))) as stage:
            outcomes = run_cells(stage, cells, asked.at_once, elsewhere=elsewhere)
            sample = [] if elsewhere else choose_real(cells, asked.real)
            real = run_cells(stage, sample, asked.at_once, real=True)
        _keep_failed(Path(directory), [*outcomes, *real])
    report = make_report(cells, outcomes, real, whole=not (asked.only or asked.cells or elsewhere))
    report["seconds"] = round(time.monotonic() - started, 1)
    REPORT.parent.mkdir(exist_ok=True)
    where = REPORT.with_stem("drill-other-host") if elsewhere else REPORT
    where.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: value for name, value in report.items() if name != "failed"}))
    return 0 if report["ok"] else 1


def run_cells(
    stage: Stage, cells: Sequence[Cell], at_once: int, *, real: bool = False, elsewhere: bool = False
) -> list[Outcome]:
    """Each scenario undisturbed, then its cells held against it."""
    with ThreadPoolExecutor(at_once) as pool:
        scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
        plain = dict(
            zip(scenarios, pool.map(lambda name: run_cell(stage, name, None, None, real=real), scenarios), strict=True)
        )
        for outcome in plain.values():
            _say(outcome)

        def run(cell: Cell) -> Outcome:
            outcome = run_cell(stage, cell.scenario, cell, plain[cell.scenario].digest, real=real, elsewhere=elsewhere)
            _say(outcome)
            return outcome

        ran = list(pool.map(run, cells))
    return [*(outcome for outcome in plain.values() if not outcome.passed), *ran]


def make_report(
    cells: Sequence[Cell], outcomes: Sequence[Outcome], real: Sequence[Outcome] = (), *, whole: bool
) -> dict[str, Any]:
    """The report.

    Shape: `cells` and `passed` on the fake host, `real` the same of the sample on the real App Server; `uncovered`
    [row kind, boundary] pairs that no cell reached; `ok` whether nothing is wrong.
    """
    reached = {outcome.name for outcome in outcomes if outcome.reached}
    covered = {(cell.word, cell.boundary) for cell in cells if cell.name in reached}
    words = written_words() if whole else {cell.word for cell in cells}
    uncovered = [(word, edge) for word in sorted(words) for edge in boundaries(word) if (word, edge) not in covered]
    if not whole:
        asked = {(cell.word, cell.boundary) for cell in cells}
        uncovered = [pair for pair in uncovered if pair in asked]
    passed = sum(outcome.passed for outcome in outcomes)
    every = [*outcomes, *real]
    report = {
        "cells": len(outcomes),
        "passed": passed,
        "real": {"cells": len(real), "passed": sum(outcome.passed for outcome in real)},
        "duplicates": sum(len(outcome.findings.duplicates) for outcome in every),
        "lost": sum(len(outcome.findings.lost) for outcome in every),
        "uncovered": [[word, str(edge)] for word, edge in uncovered],
        "failed": [{"cell": outcome.name, "why": outcome.why()} for outcome in every if not outcome.passed],
    }
    enough = not whole or len(outcomes) >= AT_LEAST
    report["ok"] = enough and all(outcome.passed for outcome in every) and not uncovered
    return report


def _say(outcome: Outcome) -> None:
    word = "passed" if outcome.passed else "FAILED"
    why = "" if outcome.passed else f": {outcome.why()[:400]}"
    print(f"{word} {outcome.name} ({outcome.seconds:.1f} s){why}", flush=True)


def _keep_failed(directory: Path, outcomes: Sequence[Outcome]) -> None:
    """The logs and rows of what failed, beside the report."""
    kept = REPORT.parent / "drill"
    shutil.rmtree(kept, ignore_errors=True)
    for outcome in outcomes:
        if not outcome.passed:
            name = outcome.name.replace("/", "-")
            shutil.copytree(directory / name, kept / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("state-*"))


if __name__ == "__main__":
    sys.exit(main())

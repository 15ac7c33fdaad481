"""`make bench`: every figure, as a table and in build/bench.json.

`python -m tests.benchmarks.run [--peer-python P] [NAME...]` measures those named,
else all. A figure that falls short is reported as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks import farm_speed, journal_speed, memory, replay, resume_10k
from tests.benchmarks.bench import REPETITIONS, Bench, Figure
from tests.farm import ROOT

MEASURES: dict[str, Callable[[Bench], list[Figure]]] = {
    "fan_out": farm_speed.fan_out,
    "sequential": farm_speed.sequential,
    "replay": replay.replay,
    "resume_10k": resume_10k.resume_10k,
    "writing": journal_speed.writing,
    "growth": journal_speed.growth,
    "memory": memory.waiting_calls,
}


def show(figures: list[Figure]) -> None:
    """The table."""
    table = Table("figure", "value", "bar", "", "ours", "peer", "unit", title=f"medians of {REPETITIONS} repetitions")
    for figure in figures:
        sign = "≥" if figure.at_least else "≤"
        table.add_row(
            figure.key, f"{figure.value:.2f}", f"{sign} {figure.bar:g}", "ok" if figure.reached else "short",
            f"{figure.ours:.4g}", f"{figure.theirs:.4g}", figure.unit,
        )  # fmt: skip
    Console().print(table)
    for figure in figures:
        if figure.limits and not figure.reached:
            print(f"{figure.key}: {figure.limits}")


def write(figures: list[Figure], *, keep: bool) -> None:
    """build/bench.json; with `keep` the figures of earlier runs stay beside these."""
    target = ROOT / "build" / "bench.json"
    target.parent.mkdir(exist_ok=True)
    kept = json.loads(target.read_text())["figures"] if keep and target.exists() else {}
    kept |= {figure.key: {**asdict(figure), "reached": figure.reached} for figure in figures}
    machine = {"cores": os.cpu_count(), "python": sys.version.split()[0]}
    target.write_text(json.dumps({"machine": machine, "repetitions": REPETITIONS, "figures": kept}, indent=2) + "\n")


def main() -> int:
    """Measure, show, write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer-python", default=sys.executable, help="the environment that has the peers")
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(MEASURES)}")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MEASURES]:
        parser.error(f"there is no measure {unknown[0]}; there are {', '.join(MEASURES)}")
    figures: list[Figure] = []
    failed: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="crw-bench-") as directory,
        closing(Bench(Path(directory), options.peer_python)) as bench,
    ):
        for name in options.names or MEASURES:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            try:
                figures += MEASURES[name](bench)
                # After each: a run that is broken off keeps what it has measured.
                write(figures, keep=bool(options.names))
            except Exception:  # noqa: BLE001 - one measure that breaks must not cost the others' figures
                traceback.print_exc()
                failed.append(name)
    show(figures)
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

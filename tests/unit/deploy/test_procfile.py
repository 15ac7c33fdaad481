"""The Procfile as honcho reads it."""

from __future__ import annotations

from pathlib import Path

from honcho.environ import parse_procfile
from honcho.manager import KILL_WAIT

PROCFILE = Path(__file__).parents[3] / "Procfile"


def test_the_procfile_starts_one_of_each_process() -> None:
    processes = parse_procfile(PROCFILE.read_text(encoding="utf-8")).processes
    assert list(processes) == ["scheduler", "worker", "flower"]
    assert all(f"crw {name}" in command for name, command in processes.items())


def test_a_worker_under_honcho_drains_before_honcho_kills_it() -> None:
    command = parse_procfile(PROCFILE.read_text(encoding="utf-8")).processes["worker"]
    drain = next(word for word in command.split() if word.startswith("CRW_DRAIN_SECONDS="))
    assert float(drain.partition("=")[2]) < KILL_WAIT - 1

"""The demo's last words: a table that lines up, totals, and where to look next."""

from __future__ import annotations

import json
from pathlib import Path

from deploy.demo.report import CallLine, Report
from deploy.demo.repository import make_repository

CALLS = (
    CallLine(None, "architect", "left", "completed", 1, 1240, 2.31, "planned 3 lanes"),
    CallLine("initials", "executor", "right", "completed", 1, 5835, 4.02, "Add initials()"),
    CallLine("initials", "commit", "right", "completed", 0, None, 0.31, "02d2c57"),
)


def _report(repository: Path, *, completed: bool = True) -> Report:
    return Report("rabc", completed, "main", "c" * 40 if completed else None, "* c\n", CALLS, repository, 21.4)


def test_the_table_lines_up_and_the_totals_add_up(tmp_path: Path) -> None:
    text = _report(make_repository(tmp_path)).as_text(None, color=False)
    rows = [line for line in text.splitlines() if "completed" in line and "  " in line]
    assert len(rows) == 3 and len({line.index("completed") for line in rows}) == 1
    assert "3 calls, 2 turns, 7075 tokens (the scripted model's) in 21 s: integrated" in text
    assert "Start wordkit" in text


def test_what_to_look_at_next_depends_on_what_was_kept(tmp_path: Path) -> None:
    report = _report(make_repository(tmp_path))
    assert "demo --keep" in report.as_text(None, color=False)
    kept = report.as_text(tmp_path, color=False)
    assert str(tmp_path / "wordkit") in kept and "--keep" not in kept


def test_a_run_without_a_target_says_so(tmp_path: Path) -> None:
    text = _report(tmp_path, completed=False).as_text(None, color=False)
    assert "the target was not made" in text and "the run ended in an error" in text
    assert "doctor" in text


def test_the_record_is_json_with_every_call(tmp_path: Path) -> None:
    record = json.loads(json.dumps(_report(tmp_path).as_record(tmp_path)))
    assert record["status"] == "completed" and record["directory"] == str(tmp_path)
    assert [call["what"] for call in record["calls"]] == ["architect", "executor", "commit"]

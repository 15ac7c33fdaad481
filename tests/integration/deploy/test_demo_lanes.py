"""The demo's repository and lanes, carried out by hand: what the scripted model will make the agents do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from deploy.demo import flow
from deploy.demo.repository import make_repository, read_commit, show_graph
from deploy.demo.scripts import LANES, make_scripts


def _run_script(repository: Path, steps: list[dict[str, Any]]) -> None:
    for step in steps:
        for item in step["out"]:
            if "exec" in item:
                subprocess.run(["sh", "-c", item["exec"]], cwd=repository, check=True, capture_output=True)


def _tests_pass(repository: Path) -> bool:
    done = subprocess.run([sys.executable, "-m", "unittest"], cwd=repository, check=False, capture_output=True)
    return done.returncode == 0


def test_the_repository_is_the_same_commit_everywhere_and_its_tests_pass(tmp_path: Path) -> None:
    first, second = (make_repository(tmp_path / name) for name in ("first", "second"))
    assert read_commit(first, "main") == read_commit(second, "main")
    assert "Start wordkit" in show_graph(first, "main")
    assert _tests_pass(first)


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_a_lane_ends_with_passing_tests_and_only_the_wrong_one_needs_its_repair(lane: Any, tmp_path: Path) -> None:
    repository, scripts = make_repository(tmp_path), make_scripts(sys.executable)
    _run_script(repository, scripts[lane.name])
    assert _tests_pass(repository) == (lane.wrong is None)
    if lane.wrong is not None:
        _run_script(repository, scripts[f"{lane.name}-repair"])
        assert _tests_pass(repository)


def test_all_lanes_together_pass_and_one_of_them_fails_first(tmp_path: Path) -> None:
    repository, scripts = make_repository(tmp_path), make_scripts(sys.executable)
    assert sum(lane.wrong is not None for lane in LANES) == 1
    for name in scripts:
        _run_script(repository, scripts[name])
    assert _tests_pass(repository)


def test_the_scripted_answers_fit_the_flows_schemas() -> None:
    for name, steps in make_scripts(sys.executable).items():
        answer = steps[-1]["out"][-1]
        assert answer["phase"] == "final_answer"
        jsonschema.validate(json.loads(answer["msg"]), flow.PLAN if name == "plan" else flow.REPORT)

"""`crw demo --crash` as a user types it: whatever dies under the flow, it ends with the trees of an undisturbed run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.programs import CRW, assert_nothing_runs, user_environment

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.req("K38", "K42")
def test_a_worker_a_scheduler_and_a_host_die_and_the_trees_are_the_same(tmp_path: Path) -> None:
    done = subprocess.run(
        [*CRW, "demo", "--crash"], env=user_environment(tmp_path), cwd=tmp_path, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for words in (
        "SIGKILL to the worker",
        "SIGKILL to the scheduler",
        "burns down",
        " --plan\n",
        "the same as undisturbed",
    ):
        assert words in done.stdout
    trees = re.findall(r"^    ([0-9a-f]{40})  (\w+)$", done.stdout, re.MULTILINE)
    assert trees[: len(trees) // 2] == trees[len(trees) // 2 :] and len(trees) == 8
    assert_nothing_runs(tmp_path)
    assert not list((tmp_path / ".cache" / "crw").glob("demo-*"))

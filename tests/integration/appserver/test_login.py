"""`crw host login` logs the farm's own home in, and no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.real
@pytest.mark.req("K56", "C01")
def test_a_login_lands_in_the_host_s_own_home_and_leaves_the_user_s_alone(tmp_path: Path) -> None:
    personal, state = tmp_path / "home", tmp_path / "state"
    personal.mkdir()
    (tmp_path / "crw.toml").touch()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("CRW_", "CODEX_"))},
        "HOME": str(personal), "CRW_CONFIG": str(tmp_path / "crw.toml"), "CRW_STATE_DIR": str(state),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip

    def crw(*words: str, told: str = "") -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "scheduler.cli.main", "host", "login", *words]
        return subprocess.run(
            argv, input=told, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )

    assert crw("--status").returncode == 1, "nobody is logged in yet"
    done = crw("--with-api-key", told="sk-test-0123456789\n")
    assert done.returncode == 0, done.stderr
    assert "sk-test-0123456789" not in done.stdout + done.stderr
    assert (state / "codex-home" / "auth.json").stat().st_mode & 0o077 == 0
    assert not (personal / ".codex").exists()
    assert crw("--status").returncode == 0

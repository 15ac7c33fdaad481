"""What of the farm's own state a sandbox, as it is configured, could write to."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.base.reach import closed_root, find_open_root


def _open_root(state: Path, **options: object) -> str | None:
    found = find_open_root(state, {"sandbox_workspace_write": options})
    return found.root if found else None


@pytest.mark.req("K35")
def test_a_directory_for_temporary_files_is_closed_until_its_exclusion_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    state = tmp_path / "state"
    assert find_open_root(state, {}) is None and closed_root(state) is not None
    assert _open_root(state, exclude_tmpdir_env_var=False) == str(tmp_path)
    assert _open_root(Path("/tmp/state"), exclude_slash_tmp=False) == "/tmp"


@pytest.mark.req("K35")
def test_a_named_writable_root_reaches_what_lies_in_it_and_what_it_lies_in(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for root in (tmp_path, state, state / "flow"):
        assert _open_root(state, writable_roots=[str(root)]) == str(root)
    assert _open_root(state, writable_roots=[str(tmp_path / "other")]) is None

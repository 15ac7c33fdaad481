"""The repository's own instructions go with the role's."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.appserver.instructions import load_instructions


@pytest.mark.req("C01")
def test_agents_md_of_the_worktree_is_handed_on(tmp_path: Path) -> None:
    assert load_instructions("You build.", str(tmp_path)) == "You build."
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    told = load_instructions("You build.", str(tmp_path))
    assert told.startswith("You build.\n") and told.endswith("Use tabs.")
    (tmp_path / "AGENTS.override.md").write_text("Use spaces.")
    assert load_instructions("You build.", str(tmp_path)).endswith("Use spaces.")


def test_what_cannot_be_read_is_no_instruction(tmp_path: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text("secret")
    root = tmp_path / "wt"
    (root / "AGENTS.override.md").mkdir(parents=True)
    (root / "AGENTS.md").symlink_to(outside)
    assert load_instructions("You build.", str(root)) == "You build."
    assert load_instructions("You build.", str(tmp_path / "nowhere")) == "You build."


def test_a_long_file_is_cut_where_the_server_would_cut_it(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xff" + b"x" * 100_000)
    assert len(load_instructions("", str(tmp_path))) < 40_000

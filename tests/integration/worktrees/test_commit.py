"""A commit object can be made of whatever a model calls it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from shared.hub.git import Git
from tests.repositories import git, make_repository
from workers.worktrees.commit import Stamp, make_commit


def test_half_a_character_in_a_message_is_a_question_mark(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "repository", {"a": "1"})
    stamp = Stamp("A", "a@example.org", datetime(2026, 1, 1, tzinfo=UTC))
    tree = git(repository, "rev-parse", "HEAD^{tree}").strip()
    commit = make_commit(Git(), repository, tree, [], "Größe \ud83d and \udcff", stamp)
    assert git(repository, "log", "-1", "--format=%s", commit).strip() == "Größe ? and ?"

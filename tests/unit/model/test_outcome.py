"""The words of why a call ended stand in one place; rows keep them, so none is spelled anew."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shared.base.errors import EchoMismatch, WorktreeError
from shared.model import outcome
from workers.call.guarding import RestoreMismatch

ROOT = Path(__file__).parents[3]
# Errors lie below the model and carry their word themselves.
_HOMES = {ROOT / "shared" / "model" / "outcome.py", ROOT / "shared" / "base" / "errors.py"}
WORDS = {
    "pair_refused": outcome.PAIR_REFUSED,
    "worktree_failed": outcome.WORKTREE_FAILED,
    "restore_snapshot_mismatch": outcome.RESTORE_MISMATCH,
    "superseded_by_resume": outcome.SUPERSEDED_BY_RESUME,
}


@pytest.mark.req("X17")
def test_the_words_are_those_that_rows_have() -> None:
    assert all(stored == word for stored, word in WORDS.items())
    assert EchoMismatch.reason == outcome.PAIR_REFUSED and WorktreeError.reason == outcome.WORKTREE_FAILED
    assert RestoreMismatch.reason == outcome.RESTORE_MISMATCH


@pytest.mark.req("X17")
def test_no_other_module_spells_one() -> None:
    spelled = [
        (file.relative_to(ROOT), node.value)
        for room in ("shared", "scheduler", "workers")
        for file in (ROOT / room).rglob("*.py")
        if file not in _HOMES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in WORDS
    ]
    assert spelled == []

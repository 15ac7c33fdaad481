"""Every row word has one class and one meaning, and the program writes no word that it does not know."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.model.events import INTENT_WORDS, REOPENING_WORDS, ROW_KINDS, SENDING_WORDS, TERMINAL_WORDS, RowClass
from shared.model.outcome import Status

ROOT = Path(__file__).parents[3]
# Words that readers understand before anybody writes them.
AHEAD: set[str] = set()
# Writers take the word first.
_MAKERS = {"NewCallRow", "NewEventRow"}


def _words_written() -> Iterator[str]:
    """The words that stand as literals where the program makes a row."""
    for room in ("shared", "scheduler", "workers"):
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MAKERS:
                    yield from (
                        part.value
                        for part in ast.walk(node.args[0] if node.args else node)
                        if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    )


@pytest.mark.req("DEF2")
def test_a_row_word_has_one_class_and_one_line_of_meaning() -> None:
    for word, kind in ROW_KINDS.items():
        assert word == kind.word and kind.meaning and "\n" not in kind.meaning
    assert not INTENT_WORDS & TERMINAL_WORDS
    assert all(ROW_KINDS[word].row_class is RowClass.OBSERVATION for word in REOPENING_WORDS - INTENT_WORDS)


@pytest.mark.req("DEF2")
def test_only_intents_send_and_every_request_to_a_server_or_hub_is_one() -> None:
    assert SENDING_WORDS < INTENT_WORDS
    assert sorted(INTENT_WORDS - SENDING_WORDS) == ["hold_cleared", "placed", "prepared"]


@pytest.mark.req("DEF2", "DEF3")
def test_every_terminal_word_is_a_status_and_every_status_a_terminal_word() -> None:
    assert {status.value for status in Status} == TERMINAL_WORDS


@pytest.mark.req("DEF2")
def test_the_program_writes_no_unknown_word_and_every_intent_and_observation_that_it_knows() -> None:
    written = set(_words_written())
    assert written - ROW_KINDS.keys() == set()
    of_calls = {word for word, kind in ROW_KINDS.items() if kind.row_class in (RowClass.INTENT, RowClass.OBSERVATION)}
    assert of_calls - written == AHEAD

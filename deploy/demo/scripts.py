"""What the demo's scripted model says and does, by the marker in the prompt.

The model is a script, the rest is real: each `exec` is a command that the App Server
runs in its sandbox, in the worktree the farm made, and each lane's files are written
by such commands. One lane's first attempt has an off-by-one error that its own
tests do not see until the farm runs all of them.
Shape: marker -> steps of the scripted provider, see `scripted_model`.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

Step = dict[str, Any]
# Between two steps, so that an eye can follow the lanes.
THINKING_SECONDS = 0.4


@dataclass(frozen=True)
class Lane:
    """One function that the demo adds: its module, its tests, and the module's wrong first form if it has one."""

    name: str
    title: str
    task: str
    module: str
    tests: str
    wrong: str | None = None


_INITIALS = '''\
"""Initials of names."""


def initials(name: str) -> str:
    """The first letters of a name's words, in capitals."""
    return "".join(word[0].upper() for word in name.split())
'''
_INITIALS_TESTS = """\
import unittest

from wordkit.initials import initials


class InitialsTest(unittest.TestCase):
    def test_each_word_gives_one_capital(self) -> None:
        self.assertEqual(initials("ada  lovelace"), "AL")

    def test_no_word_gives_nothing(self) -> None:
        self.assertEqual(initials(" "), "")
"""
_TRUNCATE = '''\
"""Text that has to fit."""


def truncate(text: str, width: int) -> str:
    """The text, cut to `width` characters with an ellipsis as the last of them."""
    if len(text) <= width:
        return text
    return text[: width - 1] + "\\N{HORIZONTAL ELLIPSIS}"
'''
_TRUNCATE_TESTS = """\
import unittest

from wordkit.truncate import truncate


class TruncateTest(unittest.TestCase):
    def test_a_text_that_fits_stays(self) -> None:
        self.assertEqual(truncate("short", 5), "short")

    def test_a_longer_text_has_exactly_the_width(self) -> None:
        cut = truncate("rather long", 6)
        self.assertEqual(len(cut), 6)
        self.assertEqual(cut, "rathe\\N{HORIZONTAL ELLIPSIS}")
"""
_COUNT = '''\
"""Words and how often they occur."""

import re
from collections import Counter


def count_words(text: str) -> dict[str, int]:
    """Each word in lower case with its number of occurrences."""
    return dict(Counter(re.findall(r"[^\\W\\d_]+", text.lower())))
'''
_COUNT_TESTS = """\
import unittest

from wordkit.count import count_words


class CountWordsTest(unittest.TestCase):
    def test_case_does_not_matter(self) -> None:
        self.assertEqual(count_words("One two. ONE!"), {"one": 2, "two": 1})
"""

LANES = (
    Lane(
        "initials",
        "Add initials()",
        "Add wordkit/initials.py with initials(name): the first letters of a name's words, in capitals. Test it.",
        _INITIALS,
        _INITIALS_TESTS,
    ),
    Lane(
        "truncate",
        "Add truncate()",
        "Add wordkit/truncate.py with truncate(text, width): cut a text to width, ending in an ellipsis. Test it.",
        _TRUNCATE,
        _TRUNCATE_TESTS,
        wrong=_TRUNCATE.replace("text[: width - 1]", "text[:width]"),
    ),
    Lane(
        "count",
        "Add count_words()",
        "Add wordkit/count.py with count_words(text): each word in lower case with its occurrences. Test it.",
        _COUNT,
        _COUNT_TESTS,
    ),
)


def make_scripts(python: str) -> dict[str, list[Step]]:
    """The scripts of all lanes; `python` is the interpreter their commands use."""
    scripts = {"plan": _plan_steps()}
    for lane in LANES:
        scripts[lane.name] = _build_steps(lane, python)
        if lane.wrong:
            scripts[f"{lane.name}-repair"] = _repair_steps(lane, python)
    return scripts


def _plan_steps() -> list[Step]:
    nodes = [{"id": lane.name, "title": lane.title, "task": lane.task} for lane in LANES]
    return [
        _step("I look at the package first.", "git log --oneline && ls wordkit tests && cat wordkit/slug.py", 900, 40),
        _answer({"nodes": nodes}, 1500, 320),
    ]


def _build_steps(lane: Lane, python: str) -> list[Step]:
    module, tests = f"wordkit/{lane.name}.py", f"tests/test_{lane.name}.py"
    # An agent that is sure of itself tries the import only; the farm's verify runs the tests.
    check = f"-m unittest tests.test_{lane.name}" if lane.wrong is None else f"-c 'import wordkit.{lane.name}'"
    return [
        _step(f"I write {module}.", _write(module, lane.wrong or lane.module), 1100, 90),
        _step(f"Now its tests, {tests}.", _write(tests, lane.tests), 1300, 120),
        _step("I try it.", f"{shlex.quote(python)} {check} && git status --short", 1500, 30),
        _answer({"summary": f"{lane.title}, with tests", "files": [module, tests]}, 1650, 45),
    ]


def _repair_steps(lane: Lane, python: str) -> list[Step]:
    module = f"wordkit/{lane.name}.py"
    return [
        _step("The cut is one character too long.", _write(module, lane.module), 2100, 80),
        _step("I run the tests.", f"{shlex.quote(python)} -m unittest", 2250, 25),
        _answer({"summary": "The ellipsis counts as a character of the width", "files": [module]}, 2350, 40),
    ]


def _write(path: str, text: str) -> str:
    return f"cat > {path} <<'END_OF_FILE'\n{text}END_OF_FILE\n"


def _step(comment: str, command: str, tokens_in: int, tokens_out: int) -> Step:
    return {
        "before": THINKING_SECONDS,
        "out": [{"msg": comment, "phase": "commentary"}, {"exec": command}],
        "usage": {"input": tokens_in, "output": tokens_out},
    }


def _answer(value: Any, tokens_in: int, tokens_out: int) -> Step:
    return {
        "before": THINKING_SECONDS,
        "out": [{"msg": json.dumps(value), "phase": "final_answer"}],
        "usage": {"input": tokens_in, "output": tokens_out},
    }

"""The values that arguments of ops may have, each parsed into the form in which it is stored.

Every function here raises a ValueError whose text follows the argument's name in a
sentence: `flow.crw.verify: head is a full commit id in hex`.
Source: design of the farm, "The flow script".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shared.model.outcome import Ended

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_MESSAGE_LIMIT_CHARACTERS = 20_000


def parse_text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("is a text that is not empty")
    if len(value) > _MESSAGE_LIMIT_CHARACTERS or "\0" in value:
        raise ValueError(f"has at most {_MESSAGE_LIMIT_CHARACTERS} characters and no NUL")
    return value


def parse_command(value: Any) -> str:
    """A text that a command line can hold.

    Raises:
        ValueError: it is no text, or has half a character in it.
    """
    text = parse_text(value)
    _refuse_surrogates(text)
    return text


def _refuse_surrogates(text: str) -> None:
    # A model can write half a character in JSON.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("has half a character in it (a lone surrogate), which no command can be given")


def parse_commit(value: Any) -> str:
    """A commit as a script may name it: the full hexadecimal id, so that the same words mean the same commit later.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, str) or _COMMIT.fullmatch(value) is None:
        raise ValueError('is a full commit id in hex, for instance the ["commit"] of flow.crw.commit')
    return value


def parse_branch(value: Any) -> str:
    """The name of a branch."""
    # What git would refuse later in a worker is refused here, at the script's line.
    text = parse_command(value)
    parts = text.split("/")
    bad = re.search(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//", text) or text == "@" or text.startswith(("-", "refs/"))
    if bad or text.endswith((".", "/")) or any(part.startswith(".") or part.endswith(".lock") for part in parts):
        raise ValueError("is the name of a branch, for instance main")
    return text


def parse_regions(value: Any) -> list[str]:
    """Paths inside the repository."""
    if not isinstance(value, (list, tuple)):
        raise ValueError("is a list of paths")
    for path in value:
        if not isinstance(path, str) or not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise ValueError("is a list of paths inside the repository")
        _refuse_surrogates(path)
    return list(value)


def parse_heads(value: Any) -> dict[str, str]:
    """Key to commit."""
    if not isinstance(value, Mapping) or not value:
        raise ValueError("is an object of key to commit that is not empty, for instance what flow.parallel returned")
    return {parse_text(key): parse_commit(commit) for key, commit in value.items()}


def parse_result(value: Any) -> dict[str, Any]:
    """The result of a call, as what identifies it."""
    if not isinstance(value, Ended):
        raise ValueError("is the result of a call, for instance what flow.agent returned")
    return value.identity()


def parse_results(value: Any) -> list[dict[str, Any]]:
    """Results of calls, in their order."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, Ended) for one in value):
        raise ValueError("is a list of results of calls, as flow.agent and flow.crw.verify return them")
    return [parse_result(one) for one in value]


def parse_tiers(value: Any) -> list[str]:
    """Roles, the first tier first."""
    texts = isinstance(value, (list, tuple)) and all(isinstance(one, str) and one for one in value)
    if not texts or not value or len(set(value)) < len(value):
        raise ValueError('is a list of different roles, the first tier first, for instance ["executor", "executor-t1"]')
    return list(value)

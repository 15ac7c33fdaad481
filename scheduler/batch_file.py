"""A batch file: one run a line, read whole before anything is done with it.

A line is a JSON object with the arguments of `Farm.submit`. A line without a key gets
one that is a digest of what the line asks for, so that the same file submitted again
finds the runs it made; lines that ask for the same thing are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduler.wanted import MEMBERS, Wanted, parse_wanted
from shared.base.canonical import digest_json
from shared.base.errors import UsageError
from shared.base.strict_json import load_strict


@dataclass(frozen=True)
class Line:
    """One run of a batch. Shape: `number` of the line, from 1; `derived` when its key is a digest of the line."""

    number: int
    wanted: Wanted
    derived: bool


def read_batch(lines: Iterable[bytes], defaults: Mapping[str, Any]) -> list[Line]:
    """The runs of a batch; empty lines are passed over.

    Args:
        defaults: members for lines that do not have them.

    Raises:
        UsageError: the first line that cannot be used, by number.
    """
    found: list[Line] = []
    keys: dict[str, tuple[int, Wanted]] = {}
    seen: Counter[str] = Counter()
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        wanted = _read_line(raw, number, defaults)
        derived = wanted.key is None
        if derived:
            content = _content_digest(wanted)
            seen[content] += 1
            wanted = replace(wanted, key=f"batch-{content[:24]}-{seen[content]}")
        key = str(wanted.key)
        earlier = keys.setdefault(key, (number, wanted))
        if earlier[1] != wanted:
            raise UsageError(
                f"line {number}: key {key!r} is that of line {earlier[0]}, which asks for something else; "
                "give each run a key of its own"
            )
        found.append(Line(number, wanted, derived))
    if not found:
        raise UsageError("the batch has no line; write one JSON object a run")
    return found


def _read_line(raw: bytes, number: int, defaults: Mapping[str, Any]) -> Wanted:
    try:
        value = load_strict(raw)
    except RecursionError:
        raise UsageError(f"line {number} is nested too deeply; put large inputs in the repository") from None
    except ValueError as error:
        # Python adds to some how a programmer would raise its limits.
        raise UsageError(f"line {number} is not JSON ({str(error).split(';')[0]}); write one object a line") from None
    if not isinstance(value, dict):
        raise UsageError(f'line {number} is no JSON object; write for instance {{"script": "my_flow.py", …}}')
    members = {**{name: given for name, given in defaults.items() if given is not None}, **value}
    return parse_wanted(members, f"line {number}")


def _content_digest(wanted: Wanted) -> str:
    content = {name: getattr(wanted, name) for name in MEMBERS if name != "key"}
    return digest_json(content)

"""Which tests failed, read from what a verify command said. Pure: text in, plain data out.

A profile knows one kind of output. Without one the first that finds something is
used; `plain` finds nothing and gives the tail alone.
Source: journal document, "Other effects".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TAIL_LINES, TAIL_BYTES = 20, 2048
_BLOCK_LINES, _BLOCK_BYTES = 10, 1024
_ELLIPSIS = "..."
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Profile:
    """How one kind of output names what failed.

    Shape: `test` and `package` find one name a line; `marked` says that a reason may
    lead with a block of the failing lines, closed by a line of dots.
    """

    test: re.Pattern[str] | None = None
    package: re.Pattern[str] | None = None
    marked: bool = False


PROFILES: Mapping[str, Profile] = {
    "go": Profile(
        re.compile(r"^\s*--- FAIL: (\S+)", re.MULTILINE), re.compile(r"^FAIL\t(\S+)", re.MULTILINE), marked=True
    ),
    "pytest": Profile(
        re.compile(r"^(?:FAILED|ERROR) (\S+?::\S.*?)(?: - .*)?$", re.MULTILINE),
        re.compile(r"^(?:FAILED|ERROR) ([^\s:]+)(?:::| - |$)", re.MULTILINE),
    ),
    "plain": Profile(),
}


def clean_text(log: bytes) -> str:
    """A log as text for people and models: replaced where it is no text, without colours and carriage returns."""
    return _COLOUR.sub("", log.decode("utf-8", "replace")).replace("\r\n", "\n").replace("\0", "\ufffd")


def pick_profile(name: str | None, text: str) -> Profile:
    """The profile with this name, else the first one that finds something in the text."""
    if name is not None:
        return PROFILES[name]
    found = (profile for profile in PROFILES.values() if _names(profile.test, text) or _names(profile.package, text))
    return next(found, PROFILES["plain"])


def failed_step(job: str, step: str, text: str, profile: Profile) -> dict[str, Any]:
    """The entry for one failed step.

    Shape: job, step, tests, packages (names in order, once each), tail (at most 20 lines and 2048 bytes).
    """
    return {
        "job": job,
        "step": step,
        "tests": _names(profile.test, text),
        "packages": _names(profile.package, text),
        "tail": tail_of(make_reason(text, profile), profile),
    }


def _names(pattern: re.Pattern[str] | None, text: str) -> list[str]:
    return list(dict.fromkeys(pattern.findall(text))) if pattern else []


def make_reason(text: str, profile: Profile) -> str:
    """The text, led by its failing lines when a long output would hide them from its tail."""
    lines = text.rstrip("\n").split("\n")
    if not profile.marked or _fits(lines):
        return "\n".join(lines)
    early = lines[:-TAIL_LINES]
    block = [early[index] for index in _failing_lines(early)]
    return "\n".join([*block, _ELLIPSIS, *lines[-TAIL_LINES:]] if block else lines)


def _failing_lines(lines: Sequence[str]) -> list[int]:
    chosen = []
    inside = False
    for index, line in enumerate(lines):
        begins = line.lstrip().startswith("--- FAIL")
        inside = begins or (inside and line[:1] in (" ", "\t"))
        if inside:
            chosen.append(index)
    return chosen


def tail_of(reason: str, profile: Profile) -> str:
    """What of a reason goes into a row: all of it if it fits, else the block it leads with and its end."""
    lines = reason.rstrip("\n").split("\n")
    if _fits(lines):
        return "\n".join(lines)
    block = _marked_block(lines) if profile.marked else []
    if not block:
        return "\n".join(_last(lines, TAIL_LINES, TAIL_BYTES))
    head = [*_first(block, _BLOCK_LINES, _BLOCK_BYTES), _ELLIPSIS]
    rest = lines[len(block) + 1 :]
    return "\n".join([*head, *_last(rest, TAIL_LINES - len(head), TAIL_BYTES - _size(head) - 1)])


def _marked_block(lines: Sequence[str]) -> list[str]:
    """The lines before the dots, when a reason leads with failing lines."""
    if _ELLIPSIS not in lines:
        return []
    block = list(lines[: lines.index(_ELLIPSIS)])
    return block if block and len(_failing_lines(block)) == len(block) else []


def _size(lines: Sequence[str]) -> int:
    return len("\n".join(lines).encode("utf-8", "surrogatepass"))


def _fits(lines: Sequence[str]) -> bool:
    return len(lines) <= TAIL_LINES and _size(lines) <= TAIL_BYTES


def _first(lines: Sequence[str], most_lines: int, most_bytes: int) -> list[str]:
    chosen = list(lines[:most_lines])
    while len(chosen) > 1 and _size(chosen) > most_bytes:
        chosen.pop()
    return [line.encode()[:most_bytes].decode("utf-8", "ignore") for line in chosen]


def _last(lines: Sequence[str], most_lines: int, most_bytes: int) -> list[str]:
    chosen = list(lines[-most_lines:]) if most_lines > 0 else []
    while len(chosen) > 1 and _size(chosen) > most_bytes:
        chosen.pop(0)
    return [line.encode()[-most_bytes:].decode("utf-8", "ignore") for line in chosen]


def last_words(text: str) -> str:
    """The end of a text, at most as much as a tail holds."""
    return "\n".join(_last(text.rstrip("\n").split("\n"), TAIL_LINES, TAIL_BYTES))

"""The resume walk: what a position does, given what was recorded at its place.

In force now, of the conditions of the walk: the position is looked up at its own
path and position only, its input digest is the recorded one (c), and its last
event ends it. A recorded position with another digest ends the run as a mismatch;
when suffixes come they take that place. A held result stands (its node holds) until
a resume may go on with it (g). Every decision is a value, so that it can be
shown before anything is spent.
Source: journal document, "The resume walk".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.resume.history import is_ended
from shared.model.events import TERMINAL_WORDS
from shared.model.rows import CallRow


@dataclass(frozen=True)
class Replay:
    """The recorded result is the position's; nothing is asked and nothing written."""

    rows: Sequence[CallRow]


@dataclass(frozen=True)
class Attach:
    """The call is open: somebody is at it or will be. Its end is waited for."""

    rows: Sequence[CallRow]


@dataclass(frozen=True)
class Live:
    """The position opens a call.

    Shape: `attempt` the claim's number; `ended_attempts` what the request id counts
    (an attempt that was held and goes on is the same request).
    """

    attempt: int = 0
    ended_attempts: int = 0


@dataclass(frozen=True)
class Mismatch:
    """The script asks something else than what was recorded here: `differs` names the members."""

    sentence: str
    differs: tuple[str, ...]


Decision = Replay | Attach | Live | Mismatch

# An attempt that ended so has no result of its own: another one takes its place.
_TAKES_ANOTHER = frozenset({"superseded", "withdrawn"})


def walk(rows: Sequence[CallRow], place: tuple[str, int], kind: str, detail: Mapping[str, Any]) -> Decision:
    """Decide what the position at `place` does.

    Args:
        rows: what was recorded there, oldest first; empty for a position never opened.
        kind: `agent` or the op that the script asks for now.
        detail: what it asks, with its `input_digest`, as a prepared row would record it.
    """
    if not rows:
        return Live()
    recorded = next((row for row in reversed(rows) if "input_digest" in row.detail), None)
    if recorded is None or recorded.detail["input_digest"] != detail["input_digest"]:
        return _mismatch(rows[-1], recorded.detail if recorded else {}, place, kind, detail)
    if not is_ended(rows):
        return Attach(rows)
    ends = [row.event for row in rows if row.event in TERMINAL_WORDS]
    if ends[-1] in _TAKES_ANOTHER:
        return Live(rows[-1].attempt + 1, sum(end != "held" for end in ends))
    return Replay(rows)


def _mismatch(
    row: CallRow, recorded: Mapping[str, Any], place: tuple[str, int], kind: str, detail: Mapping[str, Any]
) -> Mismatch:
    differs = tuple(sorted(_differing(recorded, detail))) if row.kind == kind else ("kind",)
    if row.kind != kind:
        what = f"the script asks for {kind}, recorded is {row.kind}"
    elif differs:
        what = f"{', '.join(differs)} {'is' if len(differs) == 1 else 'are'} not what was recorded"
    else:
        differs = ("joins",)
        what = "the results of the joins before it are not what was recorded"
    return Mismatch(f"at {place[0]}:{place[1]} {what}", differs)


# Digests say that something differs, these members say what; labels are for people and no part of the input.
_NOT_COMPARED = frozenset({"input_digest", "prompt_digest", "label"})


def _differing(recorded: Mapping[str, Any], detail: Mapping[str, Any]) -> set[str]:
    names = (recorded.keys() | detail.keys()) - _NOT_COMPARED
    return {name for name in names if recorded.get(name) != detail.get(name)}


def mismatch_of_kinds(place: tuple[str, int], asked: str, recorded: str) -> Mismatch:
    """A join where a call was recorded, or a call where a join was."""
    return Mismatch(f"at {place[0]}:{place[1]} the script opens {asked}, recorded is {recorded}", ("kind",))


def mismatch_of_join(place: tuple[str, int]) -> Mismatch:
    """A join whose items all replayed to other results than its row recorded."""
    return Mismatch(f"at {place[0]}:{place[1]} the join's items give other results than were recorded", ("results",))


def mismatch_of_end(places: Sequence[tuple[str, int]]) -> Mismatch:
    """The script came to its end without opening what was recorded."""
    named = ", ".join(f"{path}:{position}" for path, position in places[:5])
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return Mismatch(f"the script ended without coming to {named}{more}, which was recorded", ("positions",))

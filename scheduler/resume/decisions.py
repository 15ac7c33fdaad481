"""What a position does, as values: they can be shown before anything is spent, and are the same when it is.

Source: journal document, "The resume walk" and "Held calls"; decisions, "Resume, where the source leaves a gap".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.model.rows import CallRow

Place = tuple[str, int]


def place_name(place: Place) -> str:
    """A place as people write it: `main/2[api]:3`."""
    return f"{place[0]}:{place[1]}"


@dataclass(frozen=True)
class Failed:
    """Why a recorded position does not replay.

    Shape:
        condition: the letter of the walk's condition, `a` to `g`.
        place: where it failed; for a, b and f the position before it that does not replay.
        sentence: the same for people.
        differs: the members that are not the recorded ones (c, d).
        facts: what was compared: `{member: [recorded, now]}`, trees, commits.
    """

    condition: str
    place: Place
    sentence: str
    differs: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The members of a `superseded` row and of a boundary that say why."""
        said: dict[str, Any] = {
            "condition": self.condition,
            "at": place_name(self.place),
            "sentence": self.sentence,
        }
        if self.differs:
            said["differs"] = list(self.differs)
        return {**said, "facts": dict(self.facts)} if self.facts else said

    @classmethod
    def read(cls, data: Mapping[str, Any], place: Place) -> Failed:
        """From a `superseded` row of the call at `place`; `at` a place that reads otherwise is taken for that one."""
        path, _, position = str(data.get("at", "")).rpartition(":")
        at = (path, int(position)) if path and position.isdigit() else place
        return cls(
            str(data["condition"]), at, str(data.get("sentence", "")), tuple(data.get("differs", ())),
            data.get("facts", {}),
        )  # fmt: skip


@dataclass(frozen=True)
class Replay:
    """The recorded result is the position's; nothing is asked and nothing written."""

    rows: Sequence[CallRow]


@dataclass(frozen=True)
class Stays:
    """The recorded end stays although nothing more is known: an unknown outcome, or a node that still holds.

    Shape: `because` is set where the position would otherwise start a suffix: what follows it does.
    """

    rows: Sequence[CallRow]
    because: Failed | None = None


@dataclass(frozen=True)
class Attach:
    """The call is open: somebody is at it or will be. Its end is waited for."""

    rows: Sequence[CallRow]


@dataclass(frozen=True)
class GoOn:
    """A held call goes on in place: same call, request, directory and thread.

    Shape: `input_state` is `delivered` or `not_delivered`, `reason` why it was held; `attempt` the claim's next number;
    `answered` that its turns were over: no other is sent, its work is pushed and its recorded answer stands.
    """

    rows: Sequence[CallRow]
    input_state: str
    reason: str
    attempt: int = 0
    answered: bool = False


@dataclass(frozen=True)
class Live:
    """The position opens a call.

    Shape: `attempt` the claim's number; `ended_attempts` what the request id counts
    (an attempt that was held and goes on is the same request); `because` why a recorded
    position does not replay, None for one never opened; `lost` that its host was lost;
    `rows` what was recorded.
    """

    attempt: int = 0
    ended_attempts: int = 0
    because: Failed | None = None
    lost: bool = False
    rows: Sequence[CallRow] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class Mismatch:
    """The script asks something else than what was recorded here: `differs` names the members."""

    sentence: str
    differs: tuple[str, ...]


Decision = Replay | Stays | Attach | GoOn | Live | Mismatch

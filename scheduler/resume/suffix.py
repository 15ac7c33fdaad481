"""The suffix: the rows that end what earlier processes did there, before anything of it opens. Pure.

The first recorded position that does not replay, every later one of its path and every
path opened there are the suffix; behind each join above it as well, since a join under
which something runs live does not replay. Sibling paths are not touched. A call whose
outcome is unknown is never ended by a resume, and what was taken back before needs no
other row.
Source: journal document, "The suffix".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.resume.attempts import is_ended, newest_request
from scheduler.resume.decisions import Failed, Place, place_name
from scheduler.resume.history import Recorded
from shared.journal.members import EndedCall
from shared.model.allocation import own_directory_of
from shared.model.boundary import HeldTree
from shared.model.call_state import is_unknown_end
from shared.model.events import TERMINAL_WORDS
from shared.model.outcome import SUPERSEDED_BY_RESUME
from shared.model.rows import CallRow, NewCallRow
from shared.model.unpushed import Unpushed, tree_at_hold


@dataclass(frozen=True)
class Doomed:
    """A recorded call of the suffix, and which condition fails for it."""

    recorded: Recorded
    because: Failed

    @property
    def rows(self) -> Sequence[CallRow]:
        """Its rows, oldest first."""
        return self.recorded.rows

    @property
    def call_id(self) -> str:
        """The call."""
        return self.rows[0].call_id

    @property
    def at_work(self) -> bool:
        """Whether it has no end by its rows: it may wait, or somebody may be at it."""
        return not is_ended(self.rows)

    @property
    def unknown(self) -> bool:
        """Whether nobody knows what came of it: its end stays, and nothing runs in its place."""
        end = _newest_end(self.rows)
        return not self.at_work and end is not None and is_unknown_end(end)

    @property
    def to_supersede(self) -> bool:
        """Whether it has an end that gives way."""
        return not self.recorded.gone and not self.unknown

    def with_rows(self, rows: Sequence[CallRow]) -> Doomed:
        """The same call with what became of it since."""
        return replace(self, recorded=Recorded(self.recorded.place, rows))


def doom(path: str, recorded: Iterable[Recorded], behind: Failed) -> list[Doomed]:
    """The calls behind a position, each with the condition that fails for it: (a) or (f) on its path, (b) below it."""
    under = below(behind)
    return [Doomed(one, behind if one.place[0] == path else under) for one in recorded]


def behind_position(first: Place) -> Failed:
    """Why what comes later on the path of a position that does not replay does not."""
    return Failed("a", first, f"{place_name(first)} before it does not replay")


def behind_join(join: Place, first: Place) -> Failed:
    """Why what comes behind a join does not replay when a position under it does not."""
    return Failed(
        "f", join, f"the join at {place_name(join)} does not replay, since {place_name(first)} under it does not"
    )


def below(behind: Failed) -> Failed:
    """Why nothing recorded on the paths opened behind a position replays."""
    return Failed("b", behind.place, f"{place_name(behind.place)} on the path above it does not replay")


def superseded_row(doomed: Doomed, lineage: int, *, waits: bool = False) -> EndedCall:
    """The row that ends a call's newest attempt for this resume, named by its lineage.

    Args:
        waits: the call waits for a worker: it is taken from the outbox with this row.
    """
    last = doomed.rows[-1]
    detail: dict[str, Any] = {"reason": SUPERSEDED_BY_RESUME, "lineage": lineage, **doomed.because.to_json()}
    detail |= left_directory(doomed.rows)
    row = NewCallRow("superseded", detail, role=last.role, label=last.label)
    return EndedCall(
        last.call_id, last.path, last.position, last.kind, last.node_id, last.request_id, last.attempt, row, waits
    )


def left_directory(rows: Sequence[CallRow]) -> Mapping[str, str]:
    """The member of a row that takes a call's newest attempt back: the directory that goes with it, if one does."""
    directory = own_directory_of(newest_request(rows))
    return {} if directory is None else {"own_directory": directory}


def held_trees(doomed: Iterable[Doomed]) -> dict[str, list[HeldTree]]:
    """Node -> the trees that held calls of the suffix recorded there: kept on refs when the node is restored."""
    found: dict[str, list[HeldTree]] = {}
    for one in doomed:
        held = [row for row in one.rows if row.event == "held" and tree_at_hold(row) is not None]
        if held and held[-1].node_id is not None:
            tree = HeldTree(one.call_id, str(tree_at_hold(held[-1])), Unpushed.read(held[-1]) is not None)
            found.setdefault(held[-1].node_id, []).append(tree)
    return found


def _newest_end(rows: Sequence[CallRow]) -> CallRow | None:
    return next((row for row in reversed(rows) if row.event in TERMINAL_WORDS), None)

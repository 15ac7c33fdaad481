"""A prover that is a table: what a test says about places, and everything else is proven."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shared.model.proof import PROVEN, HeldState, Verdict
from shared.model.rows import CallRow, NewEventRow, Row

GONE = Verdict(False, "foreign_tree", "its files are not what it left")
MOVED = HeldState("other", False, "held_snapshot_moved", "its files have changed since")


class Verdicts:
    """Shape: `unproven` and `moved` by place (`main:1`); `asked` collects the places that were asked about."""

    def __init__(self, unproven: Mapping[str, Verdict] = {}, moved: Mapping[str, HeldState] = {}) -> None:
        self.unproven = dict(unproven)
        self.moved = dict(moved)
        self.asked: list[str] = []

    def __call__(
        self, run_id: str, epoch: int, rows: Sequence[Row], note: Callable[[NewEventRow], None], /
    ) -> Verdicts:
        return self

    def known(self, rows: Sequence[CallRow]) -> Verdict | None:
        return None

    async def verdict(self, rows: Sequence[CallRow]) -> Verdict:
        return self.unproven.get(self._ask(rows), PROVEN)

    async def held(self, rows: Sequence[CallRow]) -> HeldState:
        return self.moved.get(self._ask(rows), HeldState(rows[-1].held_tree, True))

    def _ask(self, rows: Sequence[CallRow]) -> str:
        place = f"{rows[-1].path}:{rows[-1].position}"
        self.asked.append(place)
        return place

"""A prover whose failures are the run's, not the script's: they bring the run to a stand."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from scheduler.flow.halt import Broken, Halt, Lost, Stopped
from shared.base.errors import HostUnreachable, RightLost, StoreError
from shared.model.proof import HeldState, Prover, Verdict
from shared.model.rows import CallRow

T = TypeVar("T")


class HaltingProver:
    """Asks another prover; what that raises no script may catch."""

    def __init__(self, prover: Prover, halt: Halt) -> None:
        self._prover = prover
        self._halt = halt

    def known(self, rows: Sequence[CallRow]) -> Verdict | None:
        """As the prover knows."""
        return self._prover.known(rows)

    async def verdict(self, rows: Sequence[CallRow]) -> Verdict:
        """As the prover says. Raises Stopped."""
        return await self._asked(self._prover.verdict(rows))

    async def held(self, rows: Sequence[CallRow]) -> HeldState:
        """As the prover says. Raises Stopped."""
        return await self._asked(self._prover.held(rows))

    async def _asked(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except (StoreError, HostUnreachable) as error:
            self._halt.stop(Lost(error) if isinstance(error, RightLost) else Broken(error))
            raise Stopped(str(error)) from error

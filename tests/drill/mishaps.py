"""What befalls a scenario beside the cell's own fault: a host or scheduler that is lost, a worktree somebody writes to.

The scenarios need it to come to rows that only a loss brings about.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from shared.journal import questions
from shared.journal.loss import lose_host
from tests.drill.scenarios import Scenario
from tests.drill.stage import CellFarm
from tests.waiting import wait_until


class Mishaps:
    """Those of one cell. Shape: `lost` whether the scenario's own loss has happened."""

    def __init__(self, farm: CellFarm, scenario: Scenario, *, wipe: bool = False) -> None:
        """Prepare.

        Args:
            wipe: a host that is given up has lost its state directory.
        """
        self.lost = False
        self._wipe = wipe
        self._farm = farm
        self._scenario = scenario
        self._elsewhere: Elsewhere | None = None
        self._question: str | None = None
        self._spoiled = 0

    def lose_host(self, run_id: str) -> None:
        """The worker was killed: what goes with it."""
        self.lost = True
        if self._scenario.recover:
            (started,) = self._farm.call_rows(run_id, "thread_started")
            home = self._farm.directory / "state-h1" / "codex-home"
            self._elsewhere = Elsewhere(home / "thread-writer-locks" / f"{started.thread_id}.lock")
        if self._scenario.give_up:
            self.give_up_host("h1")

    def give_up_host(self, host: str) -> None:
        """Its worker was killed, and is not waited for."""
        if self._wipe:
            shutil.rmtree(self._farm.directory / f"state-{host}", ignore_errors=True)
        lose_host(self._farm.database, host)

    def lose_scheduler(self, run_id: str) -> None:
        """The scheduler was killed: what goes with it."""
        self.lost = True
        if self._scenario.tamper is not None:
            self._tamper(run_id, "placed")

    def look(self, run_id: str) -> None:
        """What comes later, when its time has come."""
        restored = self._count(run_id, "worktree_restored") if self._scenario.tamper == "again" else 0
        if restored > self._spoiled:
            self._spoiled = restored
            self._tamper(run_id, "worktree_restored")
        if self._elsewhere is not None and self._count(run_id, "outcome_unknown"):
            self._elsewhere.close()

    def is_recovered(self, run_id: str) -> bool:
        """Whether the host has said what became of its unknown call; asks it first."""
        database = self._farm.database
        if self._question is None:
            (unknown,) = self._farm.call_rows(run_id, "outcome_unknown")
            self._question = questions.ask(database, "h1", questions.RECOVER, run_id, unknown.call_id)
        return questions.load_answer(database, self._question) is not None

    def close(self) -> None:
        """The cell is over."""
        if self._elsewhere is not None:
            self._elsewhere.close()

    def _count(self, run_id: str, row: str) -> int:
        return len(self._farm.call_rows(run_id, row))

    def _tamper(self, run_id: str, row: str) -> None:
        """Write into the worktree that the newest of these rows names."""
        worktree = self._farm.call_rows(run_id, row)[-1].worktree_path
        (Path(worktree or "") / "tampered.txt").write_text("by somebody")


class Elsewhere:
    """A process outside the farm that has a thread open, until it is closed."""

    def __init__(self, lock: Path) -> None:
        self._held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        self._open = True
        wait_until(self._take, 10, "the dead host's server to let its thread go")

    def close(self) -> None:
        """Let the thread go."""
        if self._open:
            self._open = False
            os.close(self._held)

    def _take(self) -> bool:
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

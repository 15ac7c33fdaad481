"""The processes of the soak's farm, each started again when it has ended, as a supervisor would."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from typing import Any

from tests.drill.sides import FakeSide
from tests.farm import Farm, Process

HOSTS = ("h1", "h2", "h3", "h4")
SCHEDULERS = ("s1", "s2")
CONCURRENCY = 6
# A supervisor does not start a process again in the same instant.
_PAUSE_SECONDS = 0.3


class Troupe:
    """Four workers and two schedulers. Shape: `running` by name; `restarts` how often one was started again."""

    def __init__(self, farm: Farm, sides: Mapping[str, FakeSide]) -> None:
        self.farm = farm
        self.sides = sides
        self.restarts = 0
        self.running: dict[str, Process] = {}
        self._ended_at: dict[str, float] = {}
        self._frozen: dict[str, float] = {}

    def start(self) -> None:
        """Start all of them and return when they work."""
        for name in (*SCHEDULERS, *HOSTS):
            self.running[name] = self._start(name)
        self.farm.wait_up(*self.running.values(), deadline_seconds=90)

    def mind(self) -> None:
        """Start again what has ended; wake what has slept long enough."""
        now = time.monotonic()
        for name, process in self.running.items():
            if process.alive:
                if name in self._frozen and now > self._frozen[name]:
                    del self._frozen[name]
                    process.signal(signal.SIGCONT)
                continue
            self._frozen.pop(name, None)
            if now - self._ended_at.setdefault(name, now) > _PAUSE_SECONDS:
                del self._ended_at[name]
                self.restarts += 1
                self.running[name] = self._start(name)

    def up(self, names: tuple[str, ...]) -> list[str]:
        """Those of them that run and are not frozen."""
        return [name for name in names if self.running[name].alive and name not in self._frozen]

    def freeze(self, name: str, seconds: float) -> None:
        """SIGSTOP; `mind` lets it go on after so many seconds."""
        self.running[name].signal(signal.SIGSTOP)
        self._frozen[name] = time.monotonic() + seconds

    def thaw_all(self) -> None:
        """Let everything go on."""
        for name in self._frozen:
            self._frozen[name] = 0.0
        self.mind()

    def _start(self, name: str) -> Process:
        if name in SCHEDULERS:
            return self.farm.start_scheduler(name)
        settings: dict[str, Any] = {**self.sides[name].settings(), "concurrency": CONCURRENCY}
        return self.farm.start_worker(name, **settings)

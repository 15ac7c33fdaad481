"""One sweep's loop: pass, pause, and what happens when the database is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from shared.base.errors import CrwError
from shared.base.log import get_logger

log = get_logger()


class Sweep(Protocol):
    """One duty."""

    @property
    def name(self) -> str: ...

    def pass_once(self) -> int:
        """One pass; how many things it did."""
        ...

    def forget(self) -> None:
        """A pass failed: what earlier passes saw is no evidence any more."""
        ...


class SweepLoop:
    """Runs a sweep in a thread of its own until it is stopped."""

    def __init__(self, sweep: Sweep, period_seconds: float, after: Callable[[], None] | None = None) -> None:
        """Prepare.

        Args:
            after: called when a pass did something: wakes the sweep that goes on from there.
        """
        self._sweep = sweep
        self._period_seconds = period_seconds
        self._after = after
        self._due = threading.Event()
        self._stopped = False
        self._failing = False
        self._thread = threading.Thread(target=self._loop, name=f"sweep-{sweep.name}", daemon=True)

    def start(self) -> None:
        """Begin with a pass at once."""
        self._thread.start()

    def wake(self) -> None:
        """Make the next pass due now."""
        self._due.set()

    def stop(self) -> None:
        """End after the pass that runs."""
        self._stopped = True
        self._due.set()

    def join(self, seconds: float) -> None:
        """Wait for the end."""
        self._thread.join(seconds)

    def _loop(self) -> None:
        while not self._stopped:
            self._due.clear()
            if self._pass() and self._after is not None:
                self._after()
            self._due.wait(self._period_seconds)

    def _pass(self) -> int:
        try:
            done = self._sweep.pass_once()
        except CrwError as error:
            self._sweep.forget()
            if not self._failing:
                log.warning("sweep_failed", sweep=self._sweep.name, why=str(error))
            self._failing = True
            return 0
        except Exception:
            self._sweep.forget()
            log.exception("sweep_broke", sweep=self._sweep.name)
            return 0
        if self._failing:
            log.info("sweep_back", sweep=self._sweep.name)
        self._failing = False
        if done:
            log.info("swept", sweep=self._sweep.name, done=done)
        return done

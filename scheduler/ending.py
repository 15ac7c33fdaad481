"""How a scheduler process ends: at once when all is given back, by force when a script's leavings stand in the way.

A script can leave a thread that never returns, sync code in the loop itself, or a task that
swallows its cancellation. The interpreter would wait for each of them, without a lease and
without a sign to anybody. So the process leaves by itself as soon as nothing of the farm is
in its hands, and a thread of its own ends it when even that does not come.
Source: rules of the protocol, 24 and 47.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from scheduler.stall import where_it_stands
from shared.base.log import get_logger

# A script blocks the loop for good: others have the runs, and a supervisor starts a fresh scheduler.
BLOCKED_STATUS = 4
# However short a drain is wished for: giving runs back takes a script's unwinding and some statements.
_LEAST_SECONDS = 10.0
# What is said at the end goes to a reader who may be gone, or read no more; the process ends all the same.
_LAST_WORDS_SECONDS = 1.0
log = get_logger()


class Grace:
    """The time that an ending process has. Made in the main thread, before anything of a script runs."""

    def __init__(self, seconds: float) -> None:
        """Prepare; the time does not run yet."""
        self._seconds = max(seconds, _LEAST_SECONDS)
        self._begun = False
        self._begin = threading.Event()
        self._main_thread = threading.get_ident()
        # Started here: a signal handler that starts a thread may wait for a lock that it interrupted the holder of.
        threading.Thread(target=self._watch, name="grace", daemon=True).start()

    def begin(self) -> None:
        """The process is to end: from now on its time runs. Safe in a signal handler, and a second time."""
        if not self._begun:
            self._begun = True
            self._begin.set()

    def _watch(self) -> None:
        self._begin.wait()
        # Nobody sets it: a wait that a signal does not cut short.
        threading.Event().wait(self._seconds)
        _briefly(lambda: log.error("end_forced", seconds=self._seconds, at=where_it_stands(self._main_thread)))
        leave(BLOCKED_STATUS)


def leave(status: int) -> NoReturn:
    """End the process without waiting for anybody's threads, or for whoever reads its output."""
    for name in ("stdout", "stderr"):
        _briefly(lambda name=name: getattr(sys, name).flush())  # type: ignore[misc]
    os._exit(status)


def _briefly(act: Callable[[], object]) -> None:
    """Do something that may fail, or wait for a lock that another thread holds for good."""

    def attempt() -> None:
        with contextlib.suppress(Exception):
            act()

    with contextlib.suppress(RuntimeError):  # no more threads can be started
        thread = threading.Thread(target=attempt, name="last-words", daemon=True)
        thread.start()
        thread.join(_LAST_WORDS_SECONDS)

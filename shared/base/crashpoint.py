"""Named points at which a test can end or freeze this process.

`CRW_CRASH_AT=after:turn_requested` kills the process (SIGKILL) at that name,
`CRW_FREEZE_AT` stops it there (SIGSTOP) until somebody continues it; `...#3` at its
third passing. Unset, a point costs one comparison. Every row kind has one before
and one after its commit, so that no test needs hooks of its own.
"""

from __future__ import annotations

import os
import signal
import threading


class _Point:
    """A name to be passed and the signal for it."""

    def __init__(self, variable: str, number: signal.Signals) -> None:
        self.name, _, nth = os.environ.get(variable, "").partition("#")
        self._left = int(nth or 1)
        self._number = number

    def strike(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.name = ""
            # To this very thread: sent to the process, another one may take a stop, and this one would go on meanwhile.
            signal.pthread_kill(threading.get_ident(), self._number)


_crash = _Point("CRW_CRASH_AT", signal.SIGKILL)
_freeze = _Point("CRW_FREEZE_AT", signal.SIGSTOP)


def crashpoint(name: str) -> None:
    """Die or freeze here, if the environment says so."""
    if name == _crash.name:
        _crash.strike()
    elif name == _freeze.name:
        _freeze.strike()

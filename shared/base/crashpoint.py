"""Named points at which a test can end, freeze or cut this process off.

    CRW_CRASH_AT=after:turn_requested     SIGKILL to itself at that name; `...#3` at its third passing
    CRW_STOP_AT=before:completed          SIGSTOP: whoever started it looks on, and may let it go on
    CRW_CUT_AT=after:prepared             its connection there is cut: `after` a commit, the answer is lost with it

Unset, a point costs one comparison. Every row kind has one before and one after its
commit, so that no test needs hooks of its own; `next:turn_requested` is the first
point before another commit once `after:turn_requested` was passed. What was done is
said on standard error.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass
class _Armed:
    """What happens, at which name and which passing of it; `due` once a `next:` waits for its point."""

    variable: str
    name: str
    passings: int
    due: bool = False

    def passes(self, name: str) -> bool:
        """Whether this passing of a point is the one."""
        row = self.name.removeprefix("next:")
        if row == self.name:
            return self._count(name == self.name)
        if self.due and name.startswith("before:"):
            return True
        self.due = self.due or self._count(name == f"after:{row}")
        return False

    def _count(self, here: bool) -> bool:
        self.passings -= here
        return here and self.passings <= 0


_armed: _Armed | None = None


def arm(environment: Mapping[str, str]) -> None:
    """Read what the environment asks for; a process that was forked does it again with its own."""
    global _armed
    _armed = None
    for variable in ("CRW_CRASH_AT", "CRW_STOP_AT", "CRW_CUT_AT"):
        name, _, passing = environment.get(variable, "").partition("#")
        if name:
            _armed = _Armed(variable, name, int(passing or 1))


def crashpoint(name: str, cut: Callable[[], None] | None = None) -> None:
    """Die, stop or lose the connection here, if the environment says so.

    Args:
        cut: cuts the connection that is in use here, and raises what its user would meet.
    """
    global _armed
    if _armed is None or not _armed.passes(name):
        return
    variable, _armed = _armed.variable, None
    os.write(2, f"{variable} at {name}\n".encode())
    if variable == "CRW_CRASH_AT":
        os.kill(os.getpid(), signal.SIGKILL)
    elif variable == "CRW_STOP_AT":
        # To this very thread: another one may take what the process is sent, and this one would go on meanwhile.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    elif cut is not None:
        cut()


arm(os.environ)

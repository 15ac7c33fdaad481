"""Named points at which a test can stop this process for good.

`CRW_CRASH_AT=after:turn_requested` kills the process (SIGKILL) at that name;
`...#3` at its third passing. Unset, a point costs one comparison. Every row kind
has one before and one after its commit, so that no test needs hooks of its own.
"""

from __future__ import annotations

import os
import signal

_AT, _, _NTH = os.environ.get("CRW_CRASH_AT", "").partition("#")
_passed = 0


def crashpoint(name: str) -> None:
    """Die here, if the environment says so."""
    if not _AT or name != _AT:
        return
    global _passed
    _passed += 1
    if _passed >= int(_NTH or 1):
        os.kill(os.getpid(), signal.SIGKILL)

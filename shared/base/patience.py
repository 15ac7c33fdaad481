"""Wait for a service at start, saying so; give up with a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.base.errors import CrwError, UsageError
from shared.base.log import get_logger

START_SECONDS = 60.0
_TRY_SECONDS = 5.0
log = get_logger()


def wait_for_service(
    check: Callable[[float], None], unavailable: type[CrwError], patience_seconds: float = START_SECONDS
) -> None:
    """Ask `check(timeout)` until it passes.

    Args:
        unavailable: the error that means "not yet"; any other is the caller's at once.

    Raises:
        UsageError: it was still `unavailable` after `patience_seconds`; the sentence is the check's own.
    """
    end = time.monotonic() + patience_seconds
    while True:
        started = time.monotonic()
        try:
            check(min(_TRY_SECONDS, max(0.1, end - started)))
            return
        except unavailable as error:
            if time.monotonic() >= end:
                raise UsageError(f"{error} (waited {patience_seconds:g} s)") from None
            log.warning("waiting_for_service", why=str(error), seconds_left=round(end - time.monotonic()))
        time.sleep(max(0.0, min(1.0 - (time.monotonic() - started), end - time.monotonic())))

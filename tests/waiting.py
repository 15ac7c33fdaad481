"""The one wait of the tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], deadline_seconds: float, what: str) -> T:
    """The first true value of `predicate`, asked every 20 ms.

    Raises:
        AssertionError: it stayed false for `deadline_seconds`; the message says `what` was waited for.
    """
    end = time.monotonic() + deadline_seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline_seconds} s for {what}")
        time.sleep(0.02)

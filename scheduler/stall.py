"""Says which run holds the loop up: sync code of a script that takes longer than a moment.

A thread looks at the loop's last tick. A stall is told once, with the run and the
innermost lines, while it lasts: afterwards nobody could say where it was.
Source: rules of the protocol, 24.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback

from shared.base.log import get_logger

STALL_SECONDS = 1.0
_LOOK_SECONDS = 0.25
_LINES_SAID = 4
log = get_logger()


class StallWatch:
    """Watches one loop. Made in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._ticked_at = time.monotonic()
        self._told = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stall-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def tick(self) -> None:
        """The loop is alive: called by the loop itself, several times a second."""
        self._ticked_at = time.monotonic()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Tell a stall that was not told yet."""
        silence = time.monotonic() - self._ticked_at
        if silence < STALL_SECONDS:
            self._told = False
        elif not self._told:
            self._told = True
            task = asyncio.current_task(self._loop)
            run = task.get_name() if task is not None else None
            log.warning("loop_stalled", run=run, seconds=round(silence, 1), at=where_it_stands(self._loop_thread))


def where_it_stands(thread: int) -> list[str]:
    """The innermost lines that a thread is at."""
    frame = sys._current_frames().get(thread)
    lines = traceback.extract_stack(frame)[-_LINES_SAID:] if frame is not None else []
    return [f"{line.filename}:{line.lineno} {line.name}" for line in lines]

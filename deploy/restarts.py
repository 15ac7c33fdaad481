"""What ends by itself is started again, at a limited rate, before the whole farm is given up.

A process that was killed, or ran out of memory once, comes back at once; one that ends
again and again is slowed down first and then given up, so that a broken configuration
is a sentence on the terminal and not a loop.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Protocol

from deploy.server import EmbeddedError

# Deaths that are forgiven within the window; one more ends the farm.
RESTARTS = 4
WINDOW_SECONDS = 120.0
_FIRST_PAUSE_SECONDS = 0.5


class Ended(Protocol):
    """A process or a bundled server, as far as starting it again goes."""

    name: str

    @property
    def ended(self) -> int | None: ...
    def is_intact(self) -> bool: ...
    def start(self) -> None: ...


class Deaths:
    """What has died, and when, by name. No I/O; the clock is the caller's."""

    def __init__(self) -> None:
        self._deaths: dict[str, deque[float]] = defaultdict(deque)

    def pause_seconds(self, name: str, now: float) -> float | None:
        """Note a death; how long to wait until the restart, None when there is to be none.

        The first restart is at once; the pause before the next one is a second and doubles.
        """
        deaths = self._deaths[name]
        while deaths and now - deaths[0] > WINDOW_SECONDS:
            deaths.popleft()
        deaths.append(now)
        if len(deaths) > RESTARTS:
            return None
        return float(_FIRST_PAUSE_SECONDS * 2 ** (len(deaths) - 1)) if len(deaths) > 1 else 0.0


class Restarts:
    """Starts again what has ended.

    Args:
        say: told, in one line, what ended and when it comes back.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._deaths = Deaths()
        self._due: dict[str, float] = {}

    def bring_back(self, ended: Ended, now: float) -> bool:
        """Look at one that has ended; start it when its time has come.

        Returns:
            False when it is not to come back: it died too often, or what it kept on disk is gone.
        """
        due = self._due.get(ended.name)
        if due is None:
            pause = self._deaths.pause_seconds(ended.name, now) if ended.is_intact() else None
            if pause is None:
                return False
            when = f"in {pause:.0f} s" if pause else "now"
            self._say(f"{ended.name} ended with status {ended.ended}; it is started again {when}")
            self._due[ended.name] = due = now + pause
        if now >= due:
            del self._due[ended.name]
            try:
                ended.start()
            except EmbeddedError as error:
                # It counts as one more death at the next look.
                self._say(str(error))
        return True

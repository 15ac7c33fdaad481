"""How a run is brought to a stand from outside its script, whatever the script catches.

A halt has one cause, as a rule the first. From then on every `flow` call raises `Stopped`,
which no `except Exception` catches, so that no position opens any more; the script's
tasks are cancelled by whoever drives the run. Losing the right to write wins over
any other cause: then not a row is written.
Source: rules of the protocol, 47.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


class Stopped(BaseException):
    """The run is being stopped: a script may clean up, but it can open nothing any more."""


@dataclass(frozen=True)
class Lost:
    """Another process has the run, or a row's fate is not known: nothing may be written."""

    error: BaseException


@dataclass(frozen=True)
class Cancelled:
    """Somebody set `stop` on the run."""


@dataclass(frozen=True)
class Mismatched:
    """The script is not the one whose rows were recorded."""

    sentence: str
    differs: tuple[str, ...]


@dataclass(frozen=True)
class Broken:
    """Something failed that is nobody's script: the process has to be told."""

    error: BaseException


@dataclass(frozen=True)
class Over:
    """The script has ended: a task that it left behind opens nothing any more."""


Cause = Lost | Cancelled | Mismatched | Broken | Over


class Halt:
    """Whether and why the run stands."""

    def __init__(self) -> None:
        self.cause: Cause | None = None
        self._standing = asyncio.Event()

    def stop(self, cause: Cause) -> None:
        """Bring the run to a stand; the first cause stays, unless the run cannot even be ended properly."""
        if self.cause is None or (isinstance(cause, (Lost, Broken)) and not isinstance(self.cause, Lost)):
            self.cause = cause
        self._standing.set()

    async def wait(self) -> None:
        """Return when the run stands."""
        await self._standing.wait()

    def check(self) -> None:
        """Refuse to go on in a run that stands.

        Raises:
            Stopped: it does.
        """
        if self.cause is not None:
            raise Stopped("the run is being stopped: no position can be opened any more")

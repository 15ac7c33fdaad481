"""What each step of an agent call works with: its rows, its right to go on, its host.

Every effect has three beats: `append` the intent, `check` the right, send. The check
stands in the transport, right before the frame is written, so that no pause between
the two can let a stale frame out. Source: rules of the protocol, 4.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from shared.base.errors import NotSent
from shared.journal.append import Claim
from shared.model.origin import Origin
from shared.model.rows import NewCallRow
from workers.appserver import AppServerConnection
from workers.claim import CallStopped
from workers.worker import Worker

T = TypeVar("T")
_SEND_TRIES = 6
_FIRST_PAUSE_SECONDS = 0.2


class Desk:
    """One call in work on this worker."""

    def __init__(self, worker: Worker, claim: Claim) -> None:
        self.worker = worker
        self.claim = claim

    @property
    def host(self) -> str:
        """This host's name on the farm."""
        return self.worker.host

    def connection(self) -> AppServerConnection:
        """The host's App Server. Raises NotSent or SettingsError when it cannot be had."""
        connection: AppServerConnection = self.worker.appserver.connection()
        return connection

    def origin(self, connection: AppServerConnection) -> Origin:
        """Where a request on this connection leaves from: what its intent records."""
        incarnation = self.worker.incarnation
        return Origin(
            host=self.host,
            worker_id=incarnation.worker_id,
            boot_id=incarnation.identity.boot_id,
            home_id=self.worker.appserver.home_id(),
            generation=connection.generation,
            space_mark=incarnation.state.space_mark,
            local_only=self.worker.settings.codex.local_only,
        )

    def append(self, row: NewCallRow) -> None:
        """Write a row and return when it is committed. Raises RightLost, RunStopping, BudgetSpent."""
        self.worker.writer.append(self.claim, row)

    def note(self, row: NewCallRow) -> None:
        """Write an observation; it rides with the next group."""
        self.worker.writer.note(self.claim, row)

    def should_stop(self) -> str | None:
        """Why the call should end early, or None."""
        return self.worker.should_stop(self.claim)

    def check_stop(self) -> None:
        """End here when the call should end. Raises CallStopped."""
        reason = self.should_stop()
        if reason is not None:
            raise CallStopped(reason)

    def check(self, _method: str, _params: Mapping[str, Any]) -> None:
        """The last look before a frame with an effect leaves. Raises CallStopped: then nothing was sent."""
        if not self.worker.may_send(self.claim):
            raise CallStopped("lost")

    def send(self, request: Callable[[], T]) -> T:
        """Make a request again while it provably was not sent (an overloaded or just restarted server).

        Raises:
            NotSent: it still was not, after several tries. CallStopped: the call should end.
        """
        pause = _FIRST_PAUSE_SECONDS
        for _ in range(_SEND_TRIES - 1):
            try:
                return request()
            except NotSent:
                self.check_stop()
                time.sleep(pause)
                pause *= 2
        return request()

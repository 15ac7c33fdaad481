"""Say which silent host a run waits for.

A call whose host is away is not lost: its host's next worker goes on with it. Until
then the run would only look slow, so the host is named in a row, once per call.
Source: rules of the protocol, 27; design of the farm, "Hosts, placement and loss".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from scheduler.flow.dispatch import Dispatch
from scheduler.flow.waiting import Inbox
from shared.base.errors import StoreError
from shared.journal.database import Database
from shared.journal.open_calls import OpenCallState, open_calls
from shared.journal.roster import list_hosts
from shared.model.rows import NewEventRow

LOOK_SECONDS = 10.0


def silent_hosts(calls: Iterable[OpenCallState], alive: Callable[[str], bool]) -> Mapping[str, list[str]]:
    """Host -> the calls that nobody has and that wait for it while it is silent."""
    found: dict[str, list[str]] = {}
    for call in calls:
        if call.state != "claimed" and call.host is not None and not alive(call.host):
            found.setdefault(call.host, []).append(call.call_id)
    return found


class Silence:
    """Looks now and then at what a run waits for, as long as nothing comes."""

    def __init__(self, database: Database, run_id: str, inbox: Inbox, dispatch: Dispatch) -> None:
        self._database = database
        self._run_id = run_id
        self._inbox = inbox
        self._dispatch = dispatch
        self._told: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            delivered = self._inbox.delivered
            await asyncio.sleep(LOOK_SECONDS)
            if self._inbox.open_calls and self._inbox.delivered == delivered:
                await self._look()

    async def _look(self) -> None:
        try:
            silent = await asyncio.to_thread(self._find)
        except StoreError:
            return
        for host, calls in silent.items():
            new = [call for call in calls if (host, call) not in self._told]
            if new:
                self._told.update((host, call) for call in new)
                self._dispatch.note(
                    NewEventRow("waiting_for_host", {"host": host, "calls": new, "reason": "host_unreachable"})
                )

    def _find(self) -> Mapping[str, list[str]]:
        calls = open_calls(self._database, self._run_id)
        if all(call.state == "claimed" or call.host is None for call in calls):
            return {}
        up = {host.host for host in list_hosts(self._database) if host.alive}
        return silent_hosts(calls, up.__contains__)

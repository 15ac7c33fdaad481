"""Say which silent host a run waits for.

A call whose host is away is not lost: its host's next worker goes on with it. Until
then the run would only look slow, so the host is named in a row, once per call; one
that stays silent for longer than a restart takes is brought to people's attention, once.
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
from shared.model.silence import silent_host_escalation, waiting_for_host

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

    def __init__(
        self, database: Database, run_id: str, inbox: Inbox, dispatch: Dispatch, *, escalate_seconds: float
    ) -> None:
        self._database = database
        self._run_id = run_id
        self._inbox = inbox
        self._dispatch = dispatch
        self._escalate_seconds = escalate_seconds
        self._told: set[tuple[str, str]] = set()
        self._escalated: set[str] = set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            delivered = self._inbox.delivered
            await asyncio.sleep(min(LOOK_SECONDS, self._escalate_seconds))
            if self._inbox.open_calls and self._inbox.delivered == delivered:
                await self._look()

    async def _look(self) -> None:
        try:
            silent, seconds = await asyncio.to_thread(self._find)
        except StoreError:
            return
        # One that came back and goes away again is a new silence.
        self._escalated &= silent.keys()
        for host, calls in silent.items():
            new = [call for call in calls if (host, call) not in self._told]
            if new:
                self._told.update((host, call) for call in new)
                self._dispatch.note(waiting_for_host(host, new))
            if host not in self._escalated and seconds[host] >= self._escalate_seconds:
                self._escalated.add(host)
                self._dispatch.note(silent_host_escalation(host, calls, seconds[host]))

    def _find(self) -> tuple[Mapping[str, list[str]], Mapping[str, float]]:
        """The silent hosts with their calls, and for how many seconds each is silent."""
        calls = open_calls(self._database, self._run_id)
        if all(call.state == "claimed" or call.host is None for call in calls):
            return {}, {}
        hosts = {host.host: host for host in list_hosts(self._database)}
        silent = silent_hosts(calls, lambda host: host in hosts and hosts[host].alive)
        return silent, {name: hosts[name].silent_seconds or 0.0 if name in hosts else 0.0 for name in silent}

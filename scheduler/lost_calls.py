"""What becomes of the calls of a host that was given up: the run's scheduler alone decides, call by call.

Where a second run can be no second effect the attempt ends `superseded` (host_lost) and
the position runs again on another host: executor calls whose sandbox had no network,
calls that only read, and ops that declare themselves rerunnable. Everything else ends
`outcome_unknown` and holds its node. Before the row the guard on the hub has moved, so
that what the lost host still pushes moves no target.
Source: design of the farm, "Hosts, placement and loss"; rules of the protocol, 7 and 19.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from scheduler.flow.dispatch import Dispatch
from scheduler.flow.waiting import Inbox
from scheduler.guarding import may_push, shut_out
from scheduler.resume.suffix import left_directory
from shared.base.errors import StoreError
from shared.base.log import get_logger
from shared.broker.names import AGENT_KIND
from shared.journal.append import EndedCall, RunLease, RunRows
from shared.journal.database import Database
from shared.journal.open_calls import OpenCallState, open_calls
from shared.journal.read import load_call
from shared.model.events import SENDING_WORDS
from shared.model.ops import OPS
from shared.model.roles import Role
from shared.model.rows import CallRow, NewCallRow
from shared.model.spec import RunSpec

HOST_LOST = "host_lost"
LOOK_SECONDS = 2.0


def why_not_again(kind: str, role: Role | None, rows: Sequence[CallRow]) -> str | None:
    """Why a call of a lost host may not run a second time; None when it may. Pure.

    Args:
        role: the call's role as the run has it; None for an op.
        rows: all rows of the call.
    """
    if kind != AGENT_KIND:
        shape = OPS.get(kind)
        return None if shape is not None and shape.rerunnable else f"the op {kind} does not say that it may run again"
    if role is None:
        return "its role is not one of the run's"
    if role.sandbox == "danger-full-access":
        return f"the sandbox of role {role.name} was open (danger-full-access)"
    if role.network and role.sandbox == "workspace-write":
        return f"the sandbox of role {role.name} had the network"
    if any(row.event in SENDING_WORDS and row.detail.get("local_only") is False for row in rows):
        return "its host let agents use apps, web search or MCP servers"
    return None


def plan_end(call: OpenCallState, role: Role | None, rows: Sequence[CallRow]) -> EndedCall:
    """The last row of a lost call's attempt. Pure."""
    host = next((row.host for row in reversed(rows) if row.host), None)
    why = why_not_again(call.kind, role, rows)
    facts = {"reason": HOST_LOST, "host": host}
    if why is None:
        event, facts["sentence"] = "superseded", f"host {host} was given up; the call runs again on another one"
        facts |= left_directory(rows)
    else:
        event, facts["error"] = "outcome_unknown", f"host {host} was given up after the call had sent something: {why}"
    row = NewCallRow(event, facts, role=call.role, label=call.label)
    return EndedCall(
        call.call_id, call.path, call.position, call.kind, call.node_id, call.request_id, call.attempt, row
    )


class LostCalls:
    """Looks for lost calls of one run while it is driven, and ends them under its lease."""

    def __init__(self, database: Database, lease: RunLease, spec: RunSpec, inbox: Inbox, dispatch: Dispatch) -> None:
        self._database = database
        self._lease = lease
        self._spec = spec
        self._inbox = inbox
        self._dispatch = dispatch
        self._one_at_a_time = asyncio.Lock()
        self._closed = False

    async def run(self) -> None:
        """Look until cancelled."""
        while not self._closed:
            await asyncio.sleep(LOOK_SECONDS)
            if self._inbox.open_calls:
                await self.look()

    async def look(self) -> None:
        """End what is lost now; a store that is away is asked again at the next look."""
        async with self._one_at_a_time:
            if self._closed:
                return
            try:
                ended = await asyncio.to_thread(self._plan)
            except StoreError as error:
                get_logger().debug("lost_calls_unread", run=self._lease.run_id, why=str(error))
                return
            if ended:
                await self._dispatch.write(RunRows(self._lease, ended=ended))

    async def close(self) -> None:
        """Stop looking: from here on another part of the run ends its calls."""
        async with self._one_at_a_time:
            self._closed = True

    def _plan(self) -> tuple[EndedCall, ...]:
        lost = [call for call in open_calls(self._database, self._lease.run_id) if call.state == "lost"]
        pushing = {call.call_id for call in lost if may_push(self._database, [call.call_id])}
        if pushing and (error := shut_out(self._database, self._lease.run_id, HOST_LOST)) is not None:
            # The hub is away: until the guard has moved nobody may say that these calls are over.
            get_logger().error("guard_not_moved", run=self._lease.run_id, why=error)
            lost = [call for call in lost if call.call_id not in pushing]
        ended = tuple(
            plan_end(call, self._spec.roles.get(call.role or ""), load_call(self._database, call.call_id))
            for call in lost
        )
        for one in ended:
            get_logger().warning(one.row.event, run=self._lease.run_id, call=one.call_id, reason=HOST_LOST)
        return ended

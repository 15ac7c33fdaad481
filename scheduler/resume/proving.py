"""Whether recorded effects are still there: one question per host and resume, put when the first is needed.

The question stands in a table and names the run's lease epoch; its answer speaks of
every node that the host has, see `host_questions.py`. For a host that was given up the hub speaks, see `on_hub.py`.
Source: rules of the protocol, 26 and 27; settled conflicts of the one question and of the silent host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from scheduler.resume.effects import find_effect, find_hold, left_state, node_hosts, standing_place, standing_worker
from scheduler.resume.host_questions import HostQuestions, Note
from scheduler.resume.on_hub import OnHub
from shared.base.errors import HostUnreachable, StoreUnavailable
from shared.base.log import get_logger
from shared.broker.names import host_mark
from shared.journal import questions, read
from shared.journal.database import Database
from shared.journal.questions import PROOFS
from shared.model.proof import HOST_LOST, THREAD_ACTIVE, Answer, HeldState, Verdict
from shared.model.rows import CallRow, Row
from shared.model.silence import ESCALATE_SECONDS

_LOOKS = 3
_IN_PLACE = HeldState(None, True)
log = get_logger()


class Proving:
    """The prover of one run in one process."""

    def __init__(self, database: Database, run_id: str, rows: Sequence[Row], asking: HostQuestions) -> None:
        """Prepare; nobody is asked here.

        Args:
            rows: the run's, as it was loaded.
            asking: puts the questions, under the epoch of whoever resumes.
        """
        self._database = database
        self._run_id = run_id
        self._hosts = node_hosts(rows)
        self._hub = OnHub(database, run_id)
        self._asking = asking

    def known(self, rows: Sequence[CallRow]) -> Verdict | None:
        """The verdict that rows give, or that the host of the call's node has given; None where one has to be asked."""
        effect = find_effect(rows)
        if isinstance(effect, Verdict):
            return effect
        answer = self._asking.known(self._hosts.get(effect.node, "")) if effect.node is not None else None
        return answer.verdict(effect.call_id) if answer is not None and effect.node in answer.nodes else None

    async def verdict(self, rows: Sequence[CallRow]) -> Verdict:
        """Whether the effect of a call that ended is still there.

        Raises:
            RightLost: another process has the run. HostUnreachable: after `give_up_seconds`.
        """
        effect = find_effect(rows)
        if isinstance(effect, Verdict):
            return effect
        if effect.node is not None:
            answer = await self._answer_for(effect.node)
            return answer.verdict(effect.call_id) if answer is not None else await self._hub.work(rows)
        answer = await self._asking.answer_of(effect.host) if effect.host is not None else None
        return answer.verdict(effect.call_id) if answer is not None else await self._hub.merge(effect)

    async def held(self, rows: Sequence[CallRow]) -> HeldState:
        """Whether a call whose last event is held finds its worktree as it left it. Raises as `verdict` does."""
        end = find_hold(rows)
        if end is None:
            return _IN_PLACE
        if left_state(end):
            answer = await self._answer_for(str(end.node_id))
        elif end.detail.get("reason") == THREAD_ACTIVE and end.host is not None:
            answer = await self._asking.answer_of(end.host)
        else:
            stood = standing_place(rows)[1]
            lost = stood is not None and await self._asking.is_lost(stood, standing_worker(rows))
            return HOST_LOST if lost else _IN_PLACE
        return answer.held.get(end.call_id, _IN_PLACE) if answer is not None else HOST_LOST

    async def _answer_for(self, node: str) -> Answer | None:
        """The answer of the host that has a node now; None when that one was given up, or no row names one."""
        for _ in range(_LOOKS):
            host = self._hosts.get(node)
            if host is None:
                return None
            answer = await self._asking.answer_of(host)
            if answer is None or node in answer.nodes:
                return answer
            # A call that was at work all the while has moved the node: its newest rows say where.
            moved = await asyncio.to_thread(read.load_node, self._database, self._run_id, node)
            self._hosts |= node_hosts(moved)
            if self._hosts[node] == host:
                self._asking.forget(host)
        host = self._hosts[node]
        raise HostUnreachable(f"host {host} knows nothing of node {node}, which its rows place there", host=host)


class Provers:
    """The provers of a process' runs. Hosts are asked while the run's rows are still being loaded."""

    def __init__(
        self, database: Database, tell: Callable[[str], None], escalate_seconds: float = ESCALATE_SECONDS
    ) -> None:
        self._database = database
        self._tell = tell
        self._escalate_seconds = escalate_seconds
        self._asked: dict[tuple[str, int], dict[str, str]] = {}

    def ask_ahead(self, run_id: str, epoch: int) -> None:
        """Ask the hosts that have nodes of a run; blocks for a moment. A store that is away is noticed elsewhere."""
        try:
            hosts = questions.hosts_of_run(self._database, run_id)
            asked = {host: questions.ask(self._database, host, PROOFS, run_id, epoch=epoch) for host in hosts}
        except StoreUnavailable as error:
            log.info("not_asked_ahead", run=run_id, why=str(error))
            return
        for host in asked:
            self._tell(host_mark(host))
        self._asked[run_id, epoch] = asked

    def __call__(self, run_id: str, epoch: int, rows: Sequence[Row], note: Note, /) -> Proving:
        """The prover of a run whose rows were loaded."""
        asking = HostQuestions(
            self._database,
            run_id,
            epoch,
            tell=self._tell,
            note=note,
            escalate_seconds=self._escalate_seconds,
            asked=self._asked.pop((run_id, epoch), None),
        )
        return Proving(self._database, run_id, rows, asking)

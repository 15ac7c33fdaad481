"""Ask each host once what is still there, under the run's lease epoch, and wait for it as long as it takes.

A host that is silent is named in a row, and after a while a row asks people to look.
Source: rules of the protocol, 26 and 27; settled conflicts of the one question and of the silent host.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from shared.base.errors import HostUnreachable, RightLost, StoreUnavailable
from shared.base.log import get_logger
from shared.broker.names import host_mark
from shared.journal import questions
from shared.journal.database import Database
from shared.journal.questions import PROOFS
from shared.model.proof import Answer
from shared.model.rows import NewEventRow
from shared.model.silence import ESCALATE_SECONDS, silent_host_escalation, waiting_for_host

_FIRST_PAUSE_SECONDS = 0.01
# Until a host counts as silent its answer is due at any moment, and the whole run stands until it is there.
_LONGEST_PAUSE_SECONDS = 0.03
_SILENT_PAUSE_SECONDS = 1.0
# From here on a host counts as silent, and the run says what it waits for.
_SILENT_SECONDS = 10.0
_STANDING_SECONDS = 2.0
_ASK_AGAIN_SECONDS = 5.0
log = get_logger()

Note = Callable[[NewEventRow], None]
"""Writes a row of the flow."""


class HostQuestions:
    """The hosts of one run, as one process asks them."""

    def __init__(
        self,
        database: Database,
        run_id: str,
        epoch: int,
        *,
        tell: Callable[[str], None],
        note: Note,
        give_up_seconds: float | None = None,
        escalate_seconds: float = ESCALATE_SECONDS,
        asked: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare; nobody is asked here.

        Args:
            epoch: the run's lease epoch, under which the answers count.
            tell: says on the wake-up channel that a host was asked.
            give_up_seconds: how long a host is waited for; None for as long as it takes.
            escalate_seconds: how long a host is waited for before a row asks people to look.
            asked: host -> the question that was put to it before the rows were loaded.
        """
        self._database = database
        self._run_id = run_id
        self._epoch = epoch
        self._tell = tell
        self._note = note
        self._give_up_seconds = give_up_seconds
        self._escalate_seconds = escalate_seconds
        self._asked = dict(asked or {})
        # None: the host was given up.
        self._answers: dict[str, Answer | None] = {}
        self._asking: dict[str, asyncio.Lock] = {}
        # Host -> why it is not waited for any more: whoever needs it next does not begin to wait anew.
        self._silent: dict[str, str] = {}

    def known(self, host: str) -> Answer | None:
        """What a host has said so far."""
        return self._answers.get(host)

    def forget(self, host: str) -> None:
        """Ask a host again when it is needed next: what it said is older than what the rows say by now."""
        self._answers.pop(host, None)

    async def is_lost(self, host: str, worker: str | None) -> bool:
        """Whether a host was given up since this worker of it: its name may be another home's by now."""
        while True:
            try:
                standing = await asyncio.to_thread(questions.host_standing, self._database, host, worker)
                return standing is None or standing.is_given_up
            except StoreUnavailable as error:
                log.warning("proofs_delayed", run=self._run_id, host=host, why=str(error))
                await asyncio.sleep(_SILENT_PAUSE_SECONDS)

    async def answer_of(self, host: str) -> Answer | None:
        """What a host says, asked once; whoever comes meanwhile waits for the same answer. None: it was given up.

        Raises:
            RightLost: another process has the run. HostUnreachable: after `give_up_seconds`.
        """
        if host not in self._answers:
            async with self._asking.setdefault(host, asyncio.Lock()):
                if host in self._silent:
                    raise HostUnreachable(self._silent[host], host=host)
                if host not in self._answers:
                    self._answers[host] = await self._ask(host)
        return self._answers[host]

    async def _ask(self, host: str) -> Answer | None:
        started = time.monotonic()
        wait = _Waiting(host, self._note)
        while True:
            found = await self._ask_once(host, started, wait)
            if found is None:
                log.warning("effects_by_rows", run=self._run_id, host=host, why="host_lost")
            if found is None or "verdicts" in found:
                wait.over(given_up=found is None)
                return Answer.from_json(found) if found is not None else None
            if found.get("stale"):
                raise RightLost(f"run {self._run_id} is driven under a later epoch than {self._epoch}")
            log.warning("proofs_failed", run=self._run_id, host=host, why=found.get("sentence"))
            wait.begin(str(found.get("reason")), str(found.get("sentence")))
            self._check_patience(host, started)
            await asyncio.sleep(_ASK_AGAIN_SECONDS)

    async def _ask_once(self, host: str, started: float, wait: _Waiting) -> dict[str, Any] | None:
        """The answer to one question; None when the host was given up."""
        question = self._asked.pop(host, None)
        pause, looked_at = _FIRST_PAUSE_SECONDS, 0.0
        while True:
            try:
                if time.monotonic() - looked_at > _STANDING_SECONDS:
                    looked_at = time.monotonic()
                    standing = await asyncio.to_thread(questions.host_standing, self._database, host)
                    if standing is None or standing.is_given_up:
                        return None
                if question is None:
                    question = await asyncio.to_thread(self._put, host)
                    self._tell(host_mark(host))
                found = await asyncio.to_thread(questions.load_answer, self._database, question)
            except StoreUnavailable as error:
                log.warning("proofs_delayed", run=self._run_id, host=host, why=str(error))
                found = None
            if found is not None:
                return found
            waited = time.monotonic() - started
            silent = waited > _SILENT_SECONDS
            if silent:
                wait.begin("host_unreachable")
            if waited > self._escalate_seconds:
                wait.escalate(waited)
            self._check_patience(host, started)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _SILENT_PAUSE_SECONDS if silent else _LONGEST_PAUSE_SECONDS)

    def _put(self, host: str) -> str:
        return questions.ask(self._database, host, PROOFS, self._run_id, epoch=self._epoch)

    def _check_patience(self, host: str, started: float) -> None:
        if self._give_up_seconds is not None and time.monotonic() - started > self._give_up_seconds:
            self._silent[host] = f"host {host} did not say within {self._give_up_seconds:g} s what is still there"
            raise HostUnreachable(self._silent[host], host=host)


class _Waiting:
    """Says in rows that a host is waited for, that people should look, and that it answers or is lost; each once."""

    def __init__(self, host: str, note: Note) -> None:
        self._host = host
        self._note = note
        self._told = False
        self._escalated = False

    def begin(self, reason: str, sentence: str | None = None) -> None:
        if not self._told:
            self._told = True
            self._note(waiting_for_host(self._host, [], reason, sentence))

    def escalate(self, waited_seconds: float) -> None:
        if not self._escalated:
            self._escalated = True
            self._note(silent_host_escalation(self._host, [], waited_seconds))

    def over(self, *, given_up: bool) -> None:
        if self._told:
            self._note(NewEventRow("host_answered", {"host": self._host, **({"given_up": True} if given_up else {})}))

"""What the hub still has of a run's effects: it speaks for a host that was given up, since all was there before a row.

A run that was cleaned has nothing there but what is on a branch. A hub that is away says
nothing of nodes, so the rows stand; of a merge, which is on the hub alone, it has to be asked.
Source: rules of the protocol, 9 and 27; journal document, "The proofs".
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from scheduler.resume.effects import Effect
from shared.base.errors import GitError
from shared.base.log import get_logger
from shared.hub.contains import find_on_branch, on_branches
from shared.hub.git import Git
from shared.hub.refs import pending_ref, read_refs, run_namespace
from shared.journal import read
from shared.journal.database import Database
from shared.journal.runs import load_spec
from shared.model.boundary import is_commit, standing
from shared.model.events import TERMINAL_WORDS
from shared.model.proof import PROVEN, Verdict, judge_integrate, short
from shared.model.rows import CallRow

_GIT_TIMEOUT_SECONDS = 300.0
log = get_logger()


class OnHub:
    """The hub of one run, as one process sees it: its refs are listed once."""

    def __init__(self, database: Database, run_id: str) -> None:
        self._database = database
        self._run_id = run_id
        self._git = Git(_GIT_TIMEOUT_SECONDS)
        self._url: str | None = None
        self._refs: dict[str, str] | None = None
        self._away = False
        self._on_branch: dict[str, bool] = {}
        self._asking = asyncio.Lock()

    async def merge(self, effect: Effect) -> Verdict:
        """Whether a merge is on its target."""
        assert effect.commit is not None and effect.ref is not None
        tip, held = await asyncio.to_thread(self._find_on_target, effect.ref, effect.commit)
        return judge_integrate(effect.commit, effect.ref, tip, held) or PROVEN

    async def work(self, rows: Sequence[CallRow]) -> Verdict:
        """Whether what a node's call left is there, or a commit of the node that came after it.

        Args:
            rows: of an executor call or a commit that completed.
        """
        end = next(row for row in reversed(rows) if row.event in TERMINAL_WORDS)
        async with self._asking:
            if self._away:
                return PROVEN
            try:
                return await asyncio.to_thread(self._judge_work, end)
            except GitError as error:
                log.warning("hub_not_read", run=self._run_id, why=str(error))
                self._away = True
                return PROVEN

    def _judge_work(self, end: CallRow) -> Verdict:
        if self._refs is None:
            self._refs = read_refs(self._git, self._hub_url(), f"{run_namespace(self._run_id)}/*")
        named = set(self._refs.values())
        if pending_ref(self._run_id, end.call_id) in self._refs or end.commit_sha in named or _changed_nothing(end):
            return PROVEN
        rows = standing(read.load_node(self._database, self._run_id, str(end.node_id)))
        later = [row for row in rows if is_commit(row) and row.seq > end.seq and not _changed_nothing(row)]
        asked = {str(row.commit_sha) for row in (end, *later) if row.commit_sha is not None}
        if asked & named or self._any_on_branch(asked):
            return PROVEN
        what = f"commit {short(end.commit_sha)}" if end.commit_sha is not None else "what the call left"
        said = f"the host of node {end.node_id} was given up, and {what} is not on the hub any more"
        return Verdict(False, "commit_gone" if end.commit_sha is not None else "work_gone", said)

    def _hub_url(self) -> str:
        """The run's hub, read once: it is asked about many positions."""
        if self._url is None:
            self._url = load_spec(self._database, self._run_id).hub
        return self._url

    def _any_on_branch(self, commits: set[str]) -> bool:
        unknown = commits - self._on_branch.keys()
        if unknown:
            there = on_branches(self._git, self._hub_url(), unknown)
            self._on_branch |= {commit: commit in there for commit in unknown}
        return any(self._on_branch[commit] for commit in commits)

    def _find_on_target(self, ref: str, commit: str) -> tuple[str | None, bool | None]:
        try:
            return find_on_branch(self._git, self._hub_url(), ref, commit)
        except GitError as error:
            log.warning("target_not_read", run=self._run_id, why=str(error))
            return None, None


def _changed_nothing(row: CallRow) -> bool:
    """Whether a commit found nothing to commit: what it names is its parent."""
    return row.commit_sha is not None and row.commit_sha == row.detail.get("parent")

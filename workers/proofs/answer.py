"""The answer to the one question that a resume asks this host: all nodes of the run that it has.

Rows that come while git is looked at are read again, and the nodes they are about looked
at once more, so that no verdict mixes the rows of one moment with the files of another.
Source: rules of the protocol, 10 and 26.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.base.errors import CrwError, GitError, StoreError, WorktreeError
from shared.base.log import get_logger
from shared.hub.refs import read_refs
from shared.journal import questions, read, runs
from shared.journal.questions import Question
from shared.model.proof import HOST_LOST, THREAD_ACTIVE, Answer, HeldState, NodeState, Verdict, judge_integrate
from shared.model.rows import CallRow
from workers.proofs.executor import judge_executors, view_node
from workers.proofs.facts import RunFacts, gather, held_calls, is_ancestor
from workers.proofs.ops import judge_commits, judge_held, judge_thread
from workers.proofs.record import NodeRecord, read_nodes
from workers.worker import Worker
from workers.worktrees.mirror import Mirrors

_LOOKS = 5
_NO_FILES = HeldState(None, True)
log = get_logger()

ThreadStatus = Callable[[str], str | None]
"""A thread's status as the App Server reads it; None when it cannot be read."""


def answer_proofs(worker: Worker, question: Question) -> dict[str, Any]:
    """Answer what of a run's effects on this host is still there. Writes no row and changes nothing.

    Returns:
        `Answer.to_json()`; for a question of an earlier epoch `{"stale": true}`: who asked it is gone.

    Raises:
        StoreError: to be asked again.
    """
    state = runs.run_state(worker.database, question.run_id)
    if state is None or state.lease_epoch != question.epoch:
        return {"stale": True}
    hub = worker.load_spec(question.run_id).hub

    def load(after: int) -> Sequence[CallRow]:
        return read.load_effects(worker.database, question.run_id, after)

    def status(thread: str) -> str | None:
        return _thread_status(worker, thread)

    strangers = questions.workers_of_other_homes(worker.database, worker.host)
    answer = prove(worker.mirrors, hub, question.run_id, worker.host, load, status, strangers)
    log.info(
        "proofs", run=question.run_id, nodes=len(answer.nodes), unproven=len(answer.verdicts), held=len(answer.held)
    )
    return answer.to_json()


def prove(
    mirrors: Mirrors, hub: str, run_id: str, host: str, load: Callable[[int], Sequence[CallRow]], status: ThreadStatus,
    strangers: Container[str] = (),
) -> Answer:  # fmt: skip
    """The answer for the nodes whose worktree is on `host`, and the integrations that ran there.

    Args:
        load: the effect rows of the run behind a seq.
        strangers: the workers of the host's name that had another home.
    """
    nodes: dict[str, _Judged] = {}
    rows: list[CallRow] = []
    for _ in range(_LOOKS):
        new = load(rows[-1].seq if rows else 0)
        if not new and rows:
            break
        rows += new
        touched = {row.node_id for row in new if row.node_id is not None}
        nodes = {node: judged for node, judged in nodes.items() if node not in touched}
        records = [record for record in read_nodes(rows_of(rows, touched)).values() if is_on(record, host)]
        facts = gather(mirrors, hub, run_id, records, strangers)
        nodes |= {record.node: _judge(record, facts, status) for record in records}
        if not new:
            break
    found = _Judged.of(nodes.values())
    here = [row for row in rows if row.host == host]
    integrations = _judge_integrations(mirrors, hub, run_id, here)
    return Answer(found.verdicts | integrations, _judge_readers(here, status) | found.held, found.nodes)


def rows_of(rows: Iterable[CallRow], nodes: Container[str]) -> list[CallRow]:
    """The rows of some nodes."""
    return [row for row in rows if row.node_id is not None and row.node_id in nodes]


def is_on(record: NodeRecord, host: str) -> bool:
    """Whether a node's worktree is on a host."""
    return record.current is not None and record.current.host == host


@dataclass(frozen=True)
class _Judged:
    verdicts: dict[str, Verdict]
    held: dict[str, HeldState]
    nodes: dict[str, NodeState]

    @classmethod
    def of(cls, parts: Iterable[_Judged]) -> _Judged:
        whole = cls({}, {}, {})
        for part in parts:
            whole.verdicts.update(part.verdicts)
            whole.held.update(part.held)
            whole.nodes.update(part.nodes)
        return whole


def _judge(record: NodeRecord, run_facts: RunFacts, status: ThreadStatus) -> _Judged:
    facts = run_facts.nodes[record.node]
    view = view_node(record, facts)
    assert view is not None and record.current is not None
    held = {}
    for turned in held_calls(record):
        if facts.given_up:
            held[turned.call_id] = HOST_LOST
            continue
        seen = run_facts.held[turned.call_id]
        state = judge_held(turned, seen.tree, seen.error, seen.kept)
        thread = status(turned.thread_id) if turned.reason == THREAD_ACTIVE and turned.thread_id else None
        held[turned.call_id] = judge_thread(state, turned.reason, thread)
    node = NodeState(record.current.path, facts.head.commit if facts.head else None, facts.snapshot)
    return _Judged(judge_executors(view, facts) | judge_commits(view, facts), held, {record.node: node})


def _judge_readers(rows: Iterable[CallRow], status: ThreadStatus) -> dict[str, HeldState]:
    """The states of held calls without a worktree of their node: their thread alone can stand in the way."""
    waiting = {
        row.call_id: row.thread_id
        for row in rows
        if row.event == "held" and row.detail.get("reason") == THREAD_ACTIVE and row.thread_id is not None
    }
    return {call: judge_thread(_NO_FILES, THREAD_ACTIVE, status(thread)) for call, thread in waiting.items()}


def _judge_integrations(mirrors: Mirrors, hub: str, run_id: str, rows: Iterable[CallRow]) -> dict[str, Verdict]:
    newest = {row.call_id: row for row in rows if row.kind == "integrate"}
    merged = {
        call: (row.commit_sha, str(row.detail.get("ref")))
        for call, row in newest.items()
        if row.event == "completed" and row.commit_sha
    }
    if not merged:
        return {}
    tips: dict[str, str] | None
    try:
        tips = read_refs(mirrors.git, hub, *sorted({ref for _, ref in merged.values()}))
        mirror = mirrors.ensure(hub, run_id, tips.values()) if tips else mirrors.path_of(hub)
    except (GitError, WorktreeError) as error:
        log.warning("target_not_read", run=run_id, error=str(error))
        tips = None
    found = {}
    for call, (commit, ref) in merged.items():
        tip = tips.get(ref) if tips is not None else None
        held = None if tips is None else tip is not None and is_ancestor(mirrors.git, mirror, commit, tip)
        if (verdict := judge_integrate(commit, ref, tip, held)) is not None:
            found[call] = verdict
    return found


def _thread_status(worker: Worker, thread_id: str) -> str | None:
    try:
        return str(worker.appserver.connection().threads.read(thread_id).status)
    except StoreError:
        raise
    except CrwError as error:
        log.info("thread_not_read", thread=thread_id, why=str(error))
        return None

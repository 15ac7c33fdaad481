"""The end of a call: commands cleaned, two equal snapshots, the tree on the hub, and only then the terminal row.

Source: journal document, "The working snapshot"; rules of the protocol, 9 and 15.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shared.base.errors import GitError, HostError, RunStopping, ThreadMissing, WorktreeError
from shared.base.log import get_logger
from shared.journal import artifacts, read
from shared.model.outcome import CANCELLED, REPOSITORY_CHANGED, WORKTREE_FAILED
from shared.model.rows import CallRow, NewCallRow
from shared.model.unpushed import Unpushed
from workers.appserver import AppServerConnection, Thread
from workers.call.context import AgentCall
from workers.call.continuing import Conversation
from workers.call.desk import Desk
from workers.call.directory import Place
from workers.call.ended import EndedTurn, is_gone
from workers.claim import LEFT_TO_OTHERS, CallStopped
from workers.worktrees.directories import Directories
from workers.worktrees.keep import Keeping

log = get_logger()
_ANSWER_TYPE = "application/octet-stream"
# An agent's work is finished; what is awaited is the hub, for as long as it takes.
_HUB_PATIENCE_SECONDS = 24 * 3600.0


@dataclass
class Progressed:
    """How far a call has come; what its terminal row reports.

    Shape:
        conversation: how the conversation that the call continues goes on; None for a call that starts one.
        checkpoint: the packet that a new thread is told in place of that conversation.
        repository: what a reading call's directory held before its first turn.
        check: compares a restored worktree with what was restored; right before the first request and the first turn.
        opened: the connection on which `thread` was opened and its pair read back.
        stored: the thread that has had a turn, which a later server can load again.
        creations, turns_sent: how many this attempt asked for; their ordinals go on behind those of earlier
            attempts, so that none is used for two sends.
        losses: how often a server died under the call.
    """

    place: Place | None = None
    conversation: Conversation | None = None
    checkpoint: Mapping[str, Any] | None = None
    repository: Mapping[str, Any] | None = None
    check: Callable[[], None] = lambda: None
    connection: AppServerConnection | None = None
    opened: AppServerConnection | None = None
    thread: Thread | None = None
    stored: str | None = None
    turns: list[EndedTurn] = field(default_factory=list)
    turns_sent: int = 0
    creations: int = 0
    losses: int = 0
    repair_used: bool = False


@dataclass(frozen=True)
class Verdict:
    """How the call ends, before its directory had a say. `event` is a terminal word."""

    event: str
    reason: str | None = None
    result: bytes | None = None
    input_state: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def settle_state(
    desk: Desk, directories: Directories, done: Progressed, verdict: Verdict, earlier: str | None = None
) -> tuple[Verdict, Mapping[str, Any]]:
    """Record what the node's worktree holds: the verdict that stands then, and the columns that name the tree.

    Args:
        earlier: the commit that the call's pending ref named at an earlier end of the call.

    Writes: the call's pending ref on the hub, and the stray ref of a HEAD that the executor moved, each with its
    `push_requested` row; where they do not come to the hub a ref of the mirror, and the answer as an artifact.
    """
    if done.place is None or not done.place.worktree or verdict.event not in ("completed", "held"):
        return verdict, {}
    column = "pending_tree" if verdict.event == "completed" else "held_tree"
    try:
        _clean(done)
        tree = directories.snapshot(done.place.path, settled=True)
    except _CommandsLeft as error:
        return _held(verdict, "commands_left_running", str(error)), {}
    except (WorktreeError, GitError) as error:
        return _held(verdict, WORKTREE_FAILED, str(error)), {}
    keeping = Keeping(desk.append, _stops(desk), _HUB_PATIENCE_SECONDS)
    node, worktree = _node_rows(desk), done.place.path
    try:
        moved = directories.keep_moved_head(node, worktree, keeping)
        directories.keep_pending(worktree, tree, keeping, earlier)
    except (WorktreeError, GitError, RunStopping) as error:
        held = _not_kept(desk, verdict, error)
        kept = _keep_here(desk, directories, node, worktree, verdict, tree, earlier)
        return replace(held, facts={**held.facts, **kept}), {"snapshot_digest": tree}
    return replace(verdict, facts={**verdict.facts, **_moved(moved)}), {column: tree, "snapshot_digest": tree}


def _keep_here(
    desk: Desk, directories: Directories, node: Sequence[CallRow], worktree: Path, verdict: Verdict, tree: str,
    earlier: str | None,
) -> Mapping[str, Any]:  # fmt: skip
    """Keep on this host what did not come to the hub, and the answer with it: who goes on here needs no other turn."""
    try:
        moved = directories.find_moved_head(node, worktree)
        ref, commit = directories.hold_pending(worktree, tree, earlier)
    except (WorktreeError, GitError) as error:
        log.warning("not_kept_here", run=desk.claim.run_id, call=desk.claim.call_id, error=str(error))
        return {}
    done = verdict.event == "completed" and verdict.result is not None
    answer = artifacts.put(desk.worker.database, verdict.result or b"", _ANSWER_TYPE) if done else None
    return {**Unpushed(tree, commit, ref, answer).member(), **_moved(moved)}


def _moved(moved: Mapping[str, str] | None) -> Mapping[str, Any]:
    return {"executor_head_moved": moved} if moved is not None else {}


def _node_rows(desk: Desk) -> Sequence[CallRow]:
    node = desk.claim.node_id
    return read.load_node(desk.worker.database, desk.claim.run_id, node) if node is not None else ()


def _not_kept(desk: Desk, verdict: Verdict, error: Exception) -> Verdict:
    """The verdict on a call whose tree is known and did not come to the hub: no column names what that has not.

    Raises:
        CallStopped: this worker ends, or has lost the call; the tree stays for whoever goes on here.
    """
    reason = _stops(desk)()
    if reason in LEFT_TO_OTHERS:
        raise CallStopped(reason) from error
    if isinstance(error, RunStopping):
        reason = reason or CANCELLED
    return _held(verdict, reason or WORKTREE_FAILED, str(error))


class _CommandsLeft(Exception):
    """A turn's command goes on writing: a snapshot would not be the state the next call finds."""


def _clean(done: Progressed) -> None:
    # A turn that was looked up on the server that ran it: nobody has opened its thread again.
    thread_id = done.thread.id if done.thread is not None else done.turns[-1].end.thread_id if done.turns else None
    if thread_id is None or done.connection is None or not done.turns_sent:
        return
    try:
        clean = done.connection.turns.clean_terminals(thread_id)
    except ThreadMissing:
        # What is not loaded runs nothing.
        return
    except HostError as error:
        # A server that is gone has taken its commands along; one that answers nonsense has not.
        if is_gone(done.connection):
            return
        raise _CommandsLeft(f"the commands of the thread cannot be listed: {error}") from error
    if not clean:
        raise _CommandsLeft("a command of the turn cannot be ended")


def _stops(desk: Desk) -> Callable[[], str | None]:
    def should_stop() -> str | None:
        reason = desk.should_stop()
        # The work is done: a deadline for the model does not throw it away.
        return None if reason == "deadline" else reason

    return should_stop


def _held(verdict: Verdict, reason: str, sentence: str) -> Verdict:
    facts = {**verdict.facts, "error": sentence, "pending_tree_error": sentence}
    return Verdict("held", verdict.reason if verdict.event == "held" else reason, None, verdict.input_state, facts)


def goes_with_its_end(done: Progressed, verdict: Verdict) -> bool:
    """Whether the call's directory is its own and is removed behind its terminal row.

    It is evidence where a turn that may only read changed it, and where nobody knows what came of the call.
    """
    kept = verdict.event == "outcome_unknown" or verdict.reason == REPOSITORY_CHANGED
    return done.place is not None and done.place.own and not kept


def terminal_row(call: AgentCall, done: Progressed, verdict: Verdict, columns: Mapping[str, Any]) -> NewCallRow:
    """The row that ends the attempt, with the references the call's meta is read from."""
    thread = done.thread
    place = str(done.place.path) if done.place is not None else None
    last = done.turns[-1] if done.turns else None
    counted = [turn.end.usage.total for turn in done.turns if turn.end.usage is not None]
    return NewCallRow(
        verdict.event,
        {
            "reason": verdict.reason,
            "requested": [call.role.model, call.role.effort],
            "configured": [thread.model, thread.effort] if thread is not None else None,
            "turns": done.turns_sent,
            "repair_used": done.repair_used,
            **({"own_directory": place} if goes_with_its_end(done, verdict) else {}),
            "transcripts": [turn.transcript for turn in done.turns if turn.transcript is not None],
            **verdict.facts,
        },
        role=call.role.name,
        label=call.prepared.label,
        thread_id=thread.id if thread is not None else last.end.thread_id if last is not None else None,
        turn_id=last.end.turn_id if last is not None else None,
        input_state=verdict.input_state,
        tokens=sum(counted) if counted else None,
        result=verdict.result,
        worktree_path=place,
        **columns,
    )

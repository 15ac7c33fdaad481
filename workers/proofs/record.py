"""What the rows of a run say about the worktrees, executor calls and commits of its nodes. Pure.

The rows come as `read.load_effects` gives them: what began, placed and ended the executor
calls and the commits. Every attempt that had a directory stays in the record, the
superseded ones too: their edits may be what stands in a worktree now.
Source: journal document, "Build and fix"; settled gap of superseded calls in the sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from shared.model.boundary import without_withdrawn
from shared.model.call_state import begins_attempt
from shared.model.events import REOPENING_WORDS, TERMINAL_WORDS
from shared.model.rows import CallRow
from shared.model.unpushed import Unpushed, tree_at_hold

OPEN = "open"
_ALLOCATIONS = ("fresh", "restore")
# What ends an attempt without saying whether its turns edited anything.
_MAY_HAVE_WRITTEN = (OPEN, "superseded", "outcome_unknown")


@dataclass(frozen=True)
class Turned:
    """An attempt of an executor call that had a directory.

    Shape:
        began_at: seq of its newest `placed` row, or of the `hold_cleared` behind it: it is in the order of these.
        worktree: the directory that the `placed` row names.
        found: the tree that the directory held then.
        tree: the state it recorded (pending or held tree), at seq `recorded_at`.
        kept_on: the mirror's ref that has to carry that state, where the hub has not got it.
        moved: its `executor_head_moved` (start, head, ref): HEAD was not where it began.
        status: the terminal word, `open` while there is none.
        newest: no later attempt of the call was prepared: the call's verdict is this one's.
    """

    call_id: str
    began_at: int
    worktree: str
    found: str | None
    tree: str | None
    recorded_at: int | None
    moved: Mapping[str, Any] | None
    status: str
    wrote: bool
    newest: bool
    thread_id: str | None = None
    reason: str | None = None
    kept_on: str | None = None

    @property
    def has_effect(self) -> bool:
        """Whether there is something to prove: it completed and recorded what it left."""
        return self.status == "completed" and self.tree is not None


@dataclass(frozen=True)
class Made:
    """A completed `commit`: `tree` on `parent` in `worktree`; with nothing changed `commit` is `parent`.

    Shape: `host` made it; another one than the worktree's made it of the hub's objects, and no HEAD moved.
    """

    call_id: str
    seq: int
    commit: str
    tree: str | None
    parent: str | None
    worktree: str | None
    newest: bool
    host: str | None = None


@dataclass(frozen=True)
class Worktree:
    """A worktree of the node, fresh or restored.

    Shape: `start` its commit; `began_as` the tree it was made with; `worker` who made it, None where no row says so.
    """

    seq: int
    kind: str
    path: str
    start: str
    host: str | None
    began_as: str | None
    worker: str | None = None


@dataclass
class NodeRecord:
    """One node. `unsettled` are the request ids of commits that no completed row settled: HEAD may be their effect."""

    node: str
    turned: list[Turned] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    worktrees: list[Worktree] = field(default_factory=list)
    unsettled: set[str] = field(default_factory=set)

    @property
    def current(self) -> Worktree | None:
        """The node's worktree: the last that was made or restored."""
        return self.worktrees[-1] if self.worktrees else None

    @property
    def at_work(self) -> Turned | None:
        """The newest attempt while it is open: somebody may be writing the worktree at this moment."""
        newest = self.turned[-1] if self.turned else None
        return newest if newest is not None and newest.status == OPEN else None


def read_nodes(rows: Iterable[CallRow]) -> dict[str, NodeRecord]:
    """Node id -> its record."""
    calls: dict[tuple[str, str], list[CallRow]] = {}
    for row in rows:
        if row.node_id is not None:
            calls.setdefault((row.node_id, row.call_id), []).append(row)
    nodes: dict[str, NodeRecord] = {}
    for (node, _), of_call in calls.items():
        record = nodes.setdefault(node, NodeRecord(node))
        attempts = _attempts(of_call)
        for attempt in attempts:
            newest = attempt is attempts[-1]
            if attempt[0].kind == "commit":
                _take_commit(record, attempt, newest)
            else:
                _take_turned(record, attempt, newest)
    for record in nodes.values():
        record.turned.sort(key=lambda turned: turned.began_at)
        record.made.sort(key=lambda made: made.seq)
        record.worktrees.sort(key=lambda worktree: worktree.seq)
    return nodes


def _attempts(rows: Sequence[CallRow]) -> list[list[CallRow]]:
    """The rows of a call by attempt; one that goes on in place is the same attempt."""
    ordered = sorted(rows, key=lambda row: row.seq)
    number = 0
    numbered = []
    for row in ordered:
        number += begins_attempt(row)
        numbered.append((number, row))
    return [[row for _, row in group] for _, group in groupby(numbered, key=lambda item: item[0])]


def _take_commit(record: NodeRecord, rows: Sequence[CallRow], newest: bool) -> None:
    done = next((row for row in reversed(rows) if row.event == "completed" and row.commit_sha), None)
    if done is None:
        record.unsettled.add(rows[-1].request_id)
        return
    assert done.commit_sha is not None
    said = done.detail
    standing = newest and rows[-1].event == "completed"
    record.made.append(
        Made(
            done.call_id,
            done.seq,
            done.commit_sha,
            said.get("tree"),
            said.get("parent"),
            said.get("worktree"),
            standing,
            done.host,
        )
    )


def _take_turned(record: NodeRecord, rows: Sequence[CallRow], newest: bool) -> None:
    # A going-on in place that was withdrawn leaves the call as it was held.
    rows = without_withdrawn(rows) or rows
    placed = [row for row in rows if row.event == "placed" and row.worktree_path]
    record.worktrees += [_worktree(row) for row in placed if row.worktree_kind in _ALLOCATIONS]
    if not placed or placed[-1].worktree_path is None:
        return
    last = placed[-1]
    left = next((row for row in reversed(rows) if row.pending_tree or tree_at_hold(row)), None)
    unpushed = Unpushed.read(left) if left is not None else None
    end = rows[-1]
    status = _status(rows)
    cleared = next((row for row in reversed(rows) if row.event == "hold_cleared" and row.seq > last.seq), None)
    record.turned.append(
        Turned(
            call_id=last.call_id,
            began_at=(cleared or last).seq,
            worktree=str(last.worktree_path),
            found=cleared.detail.get("p_held") if cleared is not None else last.snapshot_digest,
            tree=(left.pending_tree or tree_at_hold(left)) if left is not None else None,
            recorded_at=left.seq if left is not None else None,
            moved=left.detail.get("executor_head_moved") if left is not None else None,
            status=status,
            wrote=left is not None or status in _MAY_HAVE_WRITTEN or bool(end.detail.get("turns")),
            newest=newest,
            thread_id=end.thread_id,
            reason=end.detail.get("reason"),
            kept_on=unpushed.ref if unpushed is not None else None,
        )
    )


def _worktree(row: CallRow) -> Worktree:
    return Worktree(
        seq=row.seq,
        kind=str(row.worktree_kind),
        path=str(row.worktree_path),
        start=str(row.start_commit),
        host=row.host,
        began_as=row.snapshot_digest,
        worker=row.detail.get("worker_id"),
    )


def _status(rows: Sequence[CallRow]) -> str:
    """The terminal word that stands; rows of a later attempt number, or an intent behind it, open it again."""
    status, ended_as = OPEN, -1
    for row in rows:
        if row.event in TERMINAL_WORDS:
            status, ended_as = row.event, row.attempt
        elif row.event in REOPENING_WORDS or row.attempt > ended_as:
            status = OPEN
    return status

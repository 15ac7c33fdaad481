"""What holds at the end of any run, whatever died on its way: looked at in the rows, on the hub and at the host.

Source: design of the farm, "What is promised".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from shared.model.events import TERMINAL_WORDS
from shared.model.rows import CallRow, EventRow, Row
from tests.repositories import git

_INTENT_OF = {
    "thread/start": "thread_requested",
    "thread/fork": "fork_requested",
    "turn/start": "turn_requested",
    "turn/interrupt": "interrupt_requested",
}


@dataclass(frozen=True)
class Frame:
    """A request that arrived at an App Server."""

    method: str
    params: Mapping[str, Any]
    at: float

    @property
    def name(self) -> str:
        """What names it once and for all."""
        named = {"turn/start": "clientUserMessageId", "turn/interrupt": "turnId"}
        return str(self.params.get(named.get(self.method, "threadSource")))


@dataclass(frozen=True)
class Asked:
    """A turn that the model was asked for: `text` is its input without the line that names `operation`."""

    operation: str
    turn: str
    text: str


@dataclass
class Findings:
    """What does not hold, in words. `duplicates`: something was sent twice; `lost`: something is not there."""

    duplicates: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[str]:
        """Every sentence."""
        return [*self.duplicates, *self.lost, *self.broken]


def check_invariants(
    rows: Sequence[Row],
    *,
    open_calls: Sequence[str],
    frames: Iterable[Frame] = (),
    asked: Iterable[Asked] = (),
    hub: Path | None = None,
    digest: str | None = None,
    expected: str | None = None,
) -> Findings:
    """Hold one run against every promise.

    Args:
        rows: all of them.
        open_calls: the run's calls whose claim has not ended.
        frames: what arrived at the hosts, of all runs.
        asked: what the model was asked, of all runs.
        hub: the repository on which every named tree has to be kept.
        digest, expected: of this run's result, and of the undisturbed run's.
    """
    found = Findings()
    calls = [row for row in rows if isinstance(row, CallRow)]
    by_call: dict[str, list[CallRow]] = defaultdict(list)
    for row in calls:
        by_call[row.call_id].append(row)
    _check_numbers(found, rows)
    _check_end(found, rows, open_calls)
    for call, its_rows in by_call.items():
        _check_call(found, call, its_rows)
    threads = {row.thread_id for row in calls if row.thread_id is not None}
    mine = [frame for frame in frames if frame.method in _INTENT_OF and _belongs(frame, by_call, threads)]
    _check_frames(found, mine, by_call)
    _check_asked(found, [turn for turn in asked if turn.operation.split("/")[0] in by_call], by_call)
    if hub is not None:
        _check_trees(found, calls, hub)
    if expected is not None and digest != expected:
        found.lost.append(f"the result is {digest}, of the undisturbed run {expected}")
    return found


def _check_numbers(found: Findings, rows: Sequence[Row]) -> None:
    if [row.seq for row in rows] != list(range(1, len(rows) + 1)):
        found.broken.append("the rows' numbers are not dense")


def _check_end(found: Findings, rows: Sequence[Row], open_calls: Sequence[str]) -> None:
    ends = [row for row in rows if isinstance(row, EventRow) and row.kind == "finished"]
    if not ends:
        found.lost.append("the run did not finish: something waits for ever")
    elif len(ends) > 1 or not _is_recovery(rows[rows.index(ends[0]) + 1 :]):
        found.broken.append("the run's finished row is not its one last row")
    elif open_calls:
        found.lost.append(f"the run finished with calls that wait for ever: {', '.join(open_calls)}")


def _is_recovery(rows: Sequence[Row]) -> bool:
    """Whether nothing follows, or one attempt that a later look at the host proved."""
    attempts = {(row.call_id, row.attempt) for row in rows if isinstance(row, CallRow)}
    first = rows[0] if rows else None
    return first is None or (
        isinstance(first, CallRow)
        and first.event == "recovery_cleared"
        and len(attempts) == 1
        and all(isinstance(row, CallRow) for row in rows)
    )


def _check_call(found: Findings, call: str, rows: Sequence[CallRow]) -> None:
    ended: set[int] = set()
    superseded: set[int] = set()
    for row in rows:
        # A resume may put an ended attempt out of force: that is said behind its end, once.
        if row.attempt in ended and (row.event != "superseded" or row.attempt in superseded):
            found.broken.append(f"{call}: {row.event} after the terminal row of its attempt")
        if row.event in TERMINAL_WORDS:
            ended.add(row.attempt)
        if row.event == "superseded":
            superseded.add(row.attempt)
    for before, after in pairwise(row for row in rows if row.fence is not None):
        if (after.fence or 0) < (before.fence or 0):
            found.broken.append(f"{call}: {after.event} of the stale fence {after.fence} after fence {before.fence}")
    for attempt in {row.attempt for row in rows} - ended:
        found.lost.append(f"{call}: attempt {attempt} has no terminal row")


def _belongs(frame: Frame, calls: Collection[str], threads: Collection[str]) -> bool:
    """Whether a frame is one of this run's calls: named `crw:<run>/<call>/<n>` or `<call>/t<n>`, or of its threads."""
    if frame.method == "turn/interrupt":
        return frame.params.get("threadId") in threads
    return any(part in calls for part in frame.name.split("/"))


def _check_frames(found: Findings, frames: Sequence[Frame], by_call: Mapping[str, Sequence[CallRow]]) -> None:
    counts = Counter((frame.method, frame.name) for frame in frames if frame.method != "turn/interrupt")
    found.duplicates += [f"{method} {name} arrived {n} times" for (method, name), n in counts.items() if n > 1]
    announced: dict[tuple[str, str], list[CallRow]] = defaultdict(list)
    for row in (row for rows in by_call.values() for row in rows):
        announced[row.event, _announced(row)].append(row)
    for frame in frames:
        intents = announced[_INTENT_OF[frame.method], frame.name]
        if not any(row.written_at.timestamp() <= frame.at for row in intents):
            found.broken.append(f"{frame.method} {frame.name} arrived without an earlier intent")
            continue
        fence = max(row.fence or 0 for row in intents)
        newer = [
            row
            for row in by_call[intents[0].call_id]
            if (row.fence or 0) > fence and row.written_at.timestamp() < frame.at
        ]
        if newer:
            found.broken.append(f"{frame.method} {frame.name} arrived under fence {fence} after {newer[0].fence}")


def _announced(row: CallRow) -> str:
    """The name of the frame that an intent announces."""
    told = {
        "thread_requested": row.detail.get("source"),
        "fork_requested": row.detail.get("source"),
        "turn_requested": row.operation,
        "interrupt_requested": row.turn_id,
    }
    return str(told.get(row.event))


def _check_asked(found: Findings, asked: Sequence[Asked], by_call: Mapping[str, Sequence[CallRow]]) -> None:
    turns: dict[str, set[str]] = defaultdict(set)
    for turn in asked:
        turns[turn.operation].add(turn.turn)
    found.duplicates += [f"{name} ran as {len(ids)} turns" for name, ids in turns.items() if len(ids) > 1]
    # What a call was asked to do reaches a model once; a turn that goes on behind a cut one says so instead. Where an
    # attempt was given up so that the call runs again, it does so once more.
    for call, rows in by_call.items():
        prompt = str(rows[0].detail.get("prompt"))
        ran = {turn.operation for turn in asked if turn.operation.startswith(f"{call}/") and prompt in turn.text}
        if len(ran) > 1 + sum(row.event == "superseded" for row in rows):
            found.duplicates.append(f"{call}: its prompt reached the model under {', '.join(sorted(ran))}")


def _check_trees(found: Findings, calls: Sequence[CallRow], hub: Path) -> None:
    kept = {line.split(" ", 1)[0] for line in git(hub, "rev-list", "--objects", "--all").splitlines()}
    for row in calls:
        for name in ("commit_sha", "pending_tree", "held_tree"):
            named = getattr(row, name)
            if named is not None and named not in kept:
                found.lost.append(f"{row.call_id}: no ref on the hub keeps the {name} {named} of its {row.event} row")

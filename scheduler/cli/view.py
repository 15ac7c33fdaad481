"""What a run's rows say at a glance: a fold over the lean reading, pure.

`RunView.add` takes rows in their order, one at a time, so a watcher at a cursor and
a command that reads the whole run see the same thing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from shared.model.events import TERMINAL_WORDS
from shared.model.position import ROOT_PATH, parent_of
from shared.model.rows import CallRow, EventRow, Row

_KEPT_LOGS = 200


def lane_name(path: str) -> str:
    """What a path is called on a screen: the keys of the items it goes through, `main` for the root."""
    keys: list[str] = []
    while (parent := parent_of(path)) is not None:
        path, _, key = parent
        keys.append(key)
    return "/".join(reversed(keys)) or ROOT_PATH


@dataclass
class CallView:
    """A call's newest attempt.

    Shape: `state` is the word of its newest row that is not a mere observation; `ended` whether
    that word is terminal; `turns` and `tokens` count over all attempts.
    """

    call_id: str
    path: str
    position: int
    kind: str
    opened_at: datetime
    first_seq: int
    state: str = "prepared"
    attempt: int = 0
    role: str | None = None
    node: str | None = None
    label: str | None = None
    host: str | None = None
    reason: str | None = None
    commit: str | None = None
    turns: int = 0
    tokens: int | None = None
    ended_at: datetime | None = None
    last_seq: int = 0

    @property
    def ended(self) -> bool:
        """Whether the newest attempt has its terminal row."""
        return self.state in TERMINAL_WORDS

    @property
    def shown_state(self) -> str:
        """The state for people: an agent's work that only has to reach the hub is `finishing`."""
        return "finishing" if self.state == "push_requested" and self.kind == "agent" else self.state

    @property
    def name(self) -> str:
        """What the call is called on a screen: its role or its op."""
        return (self.role or self.kind) if self.kind == "agent" else self.kind

    @property
    def lane(self) -> str:
        """The lane the call stands in."""
        return lane_name(self.path)

    def seconds(self, now: datetime) -> float:
        """From the call's first row to its end, or to `now`."""
        return ((self.ended_at or now) - self.opened_at).total_seconds()


# Observations that change nothing a watcher cares about.
_SILENT = frozenset({"user_message_seen"})


@dataclass
class RunView:
    """A run as its rows tell it so far.

    Shape: `calls` in the order they were opened; `status` None until a `finished` row; `logs`
    the newest lines of the script; `silent` call -> the silent host it waits for; `asks` host -> what
    people are asked to do about its silence.
    """

    run_id: str
    calls: dict[str, CallView] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    phase: str | None = None
    status: str | None = None
    error_kind: str | None = None
    message: str | None = None
    silent: dict[str, str] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    asks: dict[str, str] = field(default_factory=dict)
    started_at: datetime | None = None
    finished_at: datetime | None = None
    last_seq: int = 0

    @classmethod
    def of(cls, run_id: str, rows: Iterable[Row]) -> RunView:
        """The view of a run whose rows are all at hand."""
        view = cls(run_id)
        for row in rows:
            view.add(row)
        return view

    @property
    def open_calls(self) -> list[CallView]:
        """Calls without a terminal row, oldest first."""
        return [call for call in self.calls.values() if not call.ended]

    @property
    def done(self) -> int:
        """How many calls have ended."""
        return len(self.calls) - len(self.open_calls)

    @property
    def waiting_for(self) -> str | None:
        """The silent hosts that calls wait for, or that a resume has asked."""
        return ", ".join(sorted({*self.silent.values(), *self.unanswered})) or None

    @property
    def ask(self) -> str | None:
        """What people are asked to do for a run that waits; None when nobody is."""
        waited_for = {*self.silent.values(), *self.unanswered}
        return "; ".join(ask for host, ask in sorted(self.asks.items()) if host in waited_for) or None

    @property
    def tokens(self) -> int | None:
        """Tokens of all calls; None when no row told any."""
        known = [call.tokens for call in self.calls.values() if call.tokens is not None]
        return sum(known) if known else None

    def add(self, row: Row) -> None:
        """Take in the next row."""
        self.last_seq = row.seq
        if isinstance(row, CallRow):
            self._add_call_row(row)
        else:
            self._add_event(row)

    def open_again(self) -> None:
        """The run is resumed: whatever ended it before is no longer so."""
        self.status = self.error_kind = self.message = self.finished_at = None

    def _add_event(self, row: EventRow) -> None:
        if row.kind == "started":
            self.started_at = self.started_at or row.written_at
            # Whoever drives the run now asks anew.
            self.unanswered.clear()
            self.asks.clear()
            self.open_again()
        elif row.kind == "phase":
            self.phase = str(row.data.get("name") or row.label or "")
        elif row.kind == "log":
            self.logs.append(str(row.data.get("message", "")))
            del self.logs[:-_KEPT_LOGS]
        elif row.kind == "waiting_for_host":
            self.silent |= {str(call): str(row.data.get("host")) for call in row.data.get("calls", ())}
            if not row.data.get("calls"):
                self.unanswered.add(str(row.data.get("host")))
        elif row.kind == "host_answered":
            self.unanswered.discard(str(row.data.get("host")))
            self.asks.pop(str(row.data.get("host")), None)
        elif row.kind == "escalation":
            self.asks[str(row.data.get("host"))] = str(row.data.get("ask"))
        elif row.kind == "finished":
            self.status = str(row.data.get("status", "finished"))
            self.error_kind = row.data.get("error_kind")
            self.message = row.data.get("message")
            self.finished_at = row.written_at

    def _add_call_row(self, row: CallRow) -> None:
        # Whoever wrote it, somebody has the call in hand again.
        self.silent.pop(row.call_id, None)
        call = self.calls.get(row.call_id)
        if call is None:
            call = CallView(row.call_id, row.path, row.position, row.kind, row.written_at, row.seq)
            self.calls[row.call_id] = call
        if row.event in ("prepared", "hold_cleared"):
            call.ended_at, call.reason = None, None
        if row.event in TERMINAL_WORDS:
            call.ended_at = row.written_at
            call.reason = row.detail.get("reason")
        if row.event == "turn_requested":
            call.turns += 1
        if row.event not in _SILENT:
            call.state = row.event
        # A terminal row carries the sum over the attempt's turns; until then turns report their own.
        if row.tokens is not None:
            call.tokens = row.tokens
        call.attempt, call.last_seq = row.attempt, row.seq
        call.role, call.node = row.role or call.role, row.node_id or call.node
        call.label, call.host = row.label or call.label, row.host or call.host
        call.commit = row.commit_sha or call.commit

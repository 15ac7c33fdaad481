"""What is given to the journal writer, and what comes back: the members of a group.

A member carries the right it is written under: a claim with its fence (a worker's
rows of one call) or a run's lease with its epoch (the scheduler's rows). Both count
the rows written under them; the count settles a commit whose answer was lost.
Source: rules of the protocol 1, 3, 31.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared.model.rows import NewCallRow, NewEventRow


@dataclass
class Claim:
    """The right to work on a call. Only the journal writer changes `rows_written`, `ended` and `failed`.

    Shape: `sent` says that an earlier holder announced an effect on `sent_host`;
    `crashes` counts holders that died; `stop` why its run told it to end, when it was
    granted; `prepared` is the detail of the attempt's prepared row and `prepared_at` its
    time; `ended` that its terminal row is stored; `failed` that a row's fate is not known,
    so that nothing more may be written under this claim.
    """

    call_id: str
    request_id: str
    run_id: str
    node_id: str | None
    kind: str
    effect: str
    path: str
    position: int
    attempt: int
    fence: int
    grant_id: str
    sent: bool
    sent_host: str | None
    crashes: int
    deadline_seconds: float | None
    rows_written: int
    role: str | None = None
    label: str | None = None
    stop: str | None = None
    prepared: Mapping[str, Any] = field(default_factory=dict, repr=False)
    prepared_at: datetime | None = None
    ended: bool = field(default=False, repr=False)
    failed: bool = field(default=False, repr=False)


@dataclass
class RunLease:
    """The right to write a run's own rows. Only the journal writer changes `rows_written` and `failed`."""

    run_id: str
    scheduler_id: str
    epoch: int
    rows_written: int
    failed: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class OpenCall:
    """A call to be opened for the workers: its claim, its outbox row and its `prepared` row.

    Shape: `effect` is `executor`, `reader` or `op`; `pin_host` the host whose App
    Server has the thread this call continues; `held` keeps it off the broker until its
    run's share has room.
    """

    call_id: str
    path: str
    position: int
    kind: str
    node_id: str | None
    effect: str
    request_id: str
    attempt: int
    prepared: NewCallRow
    pin_host: str | None = None
    deadline_seconds: float | None = None
    held: bool = False


@dataclass(frozen=True)
class EndedCall:
    """A row of a call that no worker holds, written under the run's lease.

    Shape: `takes_open` lets it end a claim that is open; one that was claimed meanwhile refuses the member.
    """

    call_id: str
    path: str
    position: int
    kind: str
    node_id: str | None
    request_id: str
    attempt: int
    row: NewCallRow
    takes_open: bool = False


@dataclass(frozen=True)
class CallRows:
    """Rows of one claimed call. A terminal row must be the last; it ends the claim."""

    claim: Claim
    rows: tuple[NewCallRow, ...]


@dataclass(frozen=True)
class RunRows:
    """Rows of one run under its lease, all of them or none.

    They are numbered in this order: `withdrawn` rows, `events`, `ended`, `opens`.

    Shape:
        withdraw: withdraw every open claim of the run and write its row.
        finish: the run ends with these rows; refused while a call is open, claimed or stranded.
        progress: a position that was never opened before is among them.
        intent: refused once `stop` is set on the run; `opens` always are.
    """

    lease: RunLease
    events: tuple[NewEventRow, ...] = ()
    opens: tuple[OpenCall, ...] = ()
    ended: tuple[EndedCall, ...] = ()
    withdraw: bool = False
    finish: bool = False
    progress: bool = False
    intent: bool = False


Member = CallRows | RunRows


@dataclass(frozen=True)
class Publication:
    """A call to be sent to the queue where a worker may claim it.

    Shape: `tries` counts publications, this one included; `label` is the call's own.
    """

    call_id: str
    request_id: str
    tries: int
    queue: str
    run_id: str
    kind: str
    role: str | None
    node_id: str | None
    label: str | None


@dataclass(frozen=True)
class Appended:
    """A member is committed.

    Shape: `seqs` of its rows in the order `events`, `ended`, `opens` (or of the
    call's rows); `withdrawn` counts the rows that `withdraw` wrote before them.
    """

    seqs: tuple[int, ...]
    publications: tuple[Publication, ...] = ()
    withdrawn: int = 0

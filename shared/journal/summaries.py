"""A list of runs at a glance: where each stands, its phase, its calls and tokens. Read-only, from lean columns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from shared.base.canonical import from_storable
from shared.journal.database import Database, retrying


@dataclass(frozen=True)
class RunSummary:
    """A run in a list.

    Shape: `calls` opened so far, `open_calls` of them not ended; `status` and `error_kind` of an
    ended run; `tokens` over its ended attempts.
    """

    run_id: str
    run_key: str | None
    workflow: str
    state: str
    stop: str | None
    submitted_at: datetime
    ended_at: datetime | None
    turns_sent: int
    phase: str | None
    status: str | None
    error_kind: str | None
    calls: int
    open_calls: int
    tokens: int | None


# Locks nothing. Per run: its newest phase (from the end of its key), its call rows once, its open claims by index.
_SUMMARIES = text("""
    select r.run_id, r.run_key, r.workflow, r.state, r.stop, r.submitted_at, r.ended_at, r.turns_sent,
      (select e.payload_json from flow_events e where e.run_id = r.run_id and e.kind = 'phase'
        order by e.seq desc limit 1) as phase_json,
      (select e.payload_json from flow_events e
        where r.state = 'ended' and e.run_id = r.run_id and e.seq = r.next_seq - 1) as end_json,
      rows.calls, rows.tokens,
      (select count(*) from call_claims c
        where c.run_id = r.run_id and c.state in ('open', 'claimed', 'stranded', 'lost')) as open_calls
    from (select * from flow_runs
        where case when cast(:state as text) is null then cast(:ended as boolean) or state <> 'ended'
          else state = :state end
        order by submitted_at desc, run_id limit :limit) r
      cross join lateral (
        select count(distinct c.call_id) as calls, sum(c.tokens) filter (where c.terminal) as tokens
        from flow_calls c where c.run_id = r.run_id) rows
    order by r.submitted_at desc, r.run_id""")


def load_summaries(
    database: Database, *, limit: int = 50, state: str | None = None, with_ended: bool = False
) -> list[RunSummary]:
    """Runs, newest first: those in `state`, or all that have not ended, or all."""

    def read() -> list[RunSummary]:
        asked = {"limit": limit, "state": state, "ended": with_ended}
        with database.statement() as connection:
            return [_summary(dict(row)) for row in connection.execute(_SUMMARIES, asked).mappings()]

    return retrying(read)


def _summary(row: dict[str, Any]) -> RunSummary:
    phase, end = row.pop("phase_json"), row.pop("end_json")
    ended = {} if end is None else from_storable(end)
    return RunSummary(
        **{**row, "tokens": None if row["tokens"] is None else int(row["tokens"])},
        phase=None if phase is None else from_storable(phase).get("name"),
        status=ended.get("status"),
        error_kind=ended.get("error_kind"),
    )
